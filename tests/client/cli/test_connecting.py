"""Where nobody answers: soon, in one line, with the address."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from oncelog_client.cli import COMMANDS, oncelog
from oncelog_client.cli.options import GIVE_UP_AFTER_S
from tests.ports import free_ports

CALLS = {
    "topics": ("topics", "--list"),
    "produce": ("produce", "--topic", "t"),
    "consume": ("consume", "--topic", "t"),
    "groups": ("groups", "--list"),
    "transactions": ("transactions", "list"),
    "config": ("config", "--describe", "--topic", "t"),
}


@pytest.fixture(params=["refused", "silent"])
def dead(request: pytest.FixtureRequest) -> Iterator[str]:
    """An address where nobody listens, or where somebody does and says nothing."""
    if request.param == "refused":
        yield f"127.0.0.1:{free_ports(1)[0]}"
        return
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        yield f"{host}:{port}"


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_waits_long_for_a_broker(name: str, dead: str) -> None:
    options = ("--bootstrap-server", dead, "--give-up-after", "0.1")
    result = CliRunner().invoke(oncelog, [*CALLS[name], *options])
    assert result.exit_code == 1
    assert f"no answer from {dead} for 0.1 s: is a broker running there?" in result.output


def test_without_being_told_it_is_ten_seconds() -> None:
    """A minute, as Kafka's clients wait, is too long for someone at a prompt."""
    said = CliRunner().invoke(oncelog, ["topics", "--help"]).output
    assert f"[default: {GIVE_UP_AFTER_S}; " in said
    assert GIVE_UP_AFTER_S == 10
