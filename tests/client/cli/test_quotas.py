"""`oncelog quotas` against a running broker."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.cli.conftest import CommandLine
from tests.harness.waiting import wait_until

RATE, PERCENT = "producer_byte_rate", "request_percentage"


def listed(command_line: CommandLine, name: str) -> list[dict[str, Any]]:
    return list(command_line.json("quotas", "list", "--user", name))


def await_listed(command_line: CommandLine, name: str, rows: list[dict[str, Any]]) -> None:
    """Wait for these quotas. Apache Kafka acknowledges a change before its broker shows it."""
    wait_until(lambda: listed(command_line, name) == rows, f"the quotas {rows}")


def row(name: str, quota: str, limit: float, client_id: str | None = None) -> dict[str, Any]:
    return {"user": name, "client_id": client_id, "ip": None, "quota": quota, "limit": limit}


def test_quotas_are_set_listed_and_removed(command_line: CommandLine, name: str) -> None:
    entity = ("--user", name)
    changed = command_line.json("quotas", "set", *entity, f"{RATE}=1e6", f"{PERCENT}=12.5")
    assert [(r["quota"], r["old_limit"], r["limit"]) for r in changed] == [
        (RATE, None, 1e6), (PERCENT, None, 12.5),
    ]  # fmt: skip
    command_line.text("quotas", "set", *entity, "--client-defaults", f"{RATE}=5")
    await_listed(
        command_line,
        name,
        [row(name, RATE, 1e6), row(name, PERCENT, 12.5), row(name, RATE, 5.0, "<default>")],
    )
    (removed,) = command_line.json("quotas", "remove", *entity, PERCENT)
    assert (removed["old_limit"], removed["limit"]) == (12.5, None)
    command_line.text("quotas", "remove", *entity)
    await_listed(command_line, name, [row(name, RATE, 5.0, "<default>")])
    command_line.text("quotas", "remove", *entity, "--client-defaults")
    await_listed(command_line, name, [])


def test_a_quota_that_makes_no_sense_is_refused_with_the_brokers_reason(
    command_line: CommandLine, name: str
) -> None:
    refused = command_line.refused("quotas", "set", "--user", name, f"{RATE}=1.5")
    assert "producer_byte_rate cannot be a fractional value" in refused


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", f"{RATE}=1"),
        ("set", "--user", "a"),
        ("set", "--user", "a", RATE),
        ("set", "--user", "a", f"{RATE}=soon"),
        ("remove", RATE),
        ("list", "--user", "a", "--user-defaults"),
    ],
    ids=" ".join,
)
def test_a_call_that_does_not_say_what_to_do_is_a_usage_error(
    command_line: CommandLine, arguments: tuple[str, ...]
) -> None:
    assert command_line.call("quotas", *arguments).exit_code == 2
