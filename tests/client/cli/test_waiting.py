"""A command that has to wait for a broker says for what."""

from __future__ import annotations

import pytest

from oncelog.testing.broker import Broker
from tests.client.cli.signalled import command


@pytest.mark.parametrize(
    ("api", "error", "arguments"),
    [
        ("ListTransactions", "COORDINATOR_NOT_AVAILABLE", ("txn", "list")),
        ("ListGroups", "COORDINATOR_LOAD_IN_PROGRESS", ("groups", "--list")),
    ],
    ids=str,
)
def test_a_command_says_what_it_waits_for(api: str, error: str, arguments: tuple[str, ...]) -> None:
    with Broker() as broker:
        fault = broker.faults.fail(api, error, times=None)
        with command(broker.bootstrap_servers, *arguments) as waiting:
            assert waiting.stderr is not None
            said = waiting.stderr.readline().decode()
            assert error in said
            assert said.endswith("; trying again for up to 10 s (--give-up-after)\n")
            fault.end()
            assert waiting.wait(30) == 0
