"""`oncelog transactions` against a running broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oncelog.testing.wire import Wire
from oncelog_client.cli.transactions import STATES
from oncelog_protocol.errors import ErrorCode
from tests.client.cli.conftest import CommandLine
from tests.harness.broker import Oncelog
from tests.harness.writing import batch, new_identity, produce


def test_a_transactional_id_is_listed_and_described(command_line: CommandLine, topic: str) -> None:
    command_line.text("produce", "--topic", topic, "--transactional-id", topic, lines="a\n")
    rows = {row["transactional_id"]: row for row in command_line.json("transactions", "list")}
    assert rows[topic]["transaction_state"] in {"PrepareCommit", "CompleteCommit"}
    (row,) = command_line.json("transactions", "describe", "--transactional-id", topic)
    assert row["producer_id"] == rows[topic]["producer_id"]
    assert row["transaction_timeout_ms"] == 60_000
    assert row["topic_partitions"] == [] or row["transaction_state"] == "PrepareCommit"
    (again,) = command_line.json("transactions", "describe", topic)
    assert again["producer_id"] == row["producer_id"]
    (producer,) = command_line.json(
        "transactions", "describe-producers", "--topic", topic, "--partition", "0"
    ) or command_line.json(
        "transactions", "describe-producers", "--topic", topic, "--partition", "1"
    )
    assert producer["producer_id"] == row["producer_id"]
    pattern = ("--transactional-id-pattern", f"{topic[:8]}.*")
    assert topic in {
        row["transactional_id"] for row in command_line.json("transactions", "list", *pattern)
    }


def test_describe_takes_one_transactional_id(command_line: CommandLine) -> None:
    assert command_line.call("transactions", "describe").exit_code == 2
    flags = ("--transactional-id", "a")
    assert command_line.call("transactions", "describe", *flags, "b").exit_code == 2


def test_the_list_can_be_filtered_by_state(command_line: CommandLine, topic: str) -> None:
    command_line.text("produce", "--topic", topic, "--transactional-id", topic, lines="a\n")
    ongoing = command_line.json("transactions", "list", "--state", "Ongoing")
    assert topic not in {row["transactional_id"] for row in ongoing}
    said = command_line.refused("transactions", "list", "--state", "Nothing")
    assert all(state.lower() in said.lower() for state in ("Nothing", *STATES))


def test_the_name_of_a_state_may_be_in_lower_case(command_line: CommandLine, topic: str) -> None:
    command_line.text("produce", "--topic", topic, "--transactional-id", topic, lines="a\n")

    def is_listed(rows: list[dict[str, Any]]) -> bool:
        return topic in {row["transactional_id"] for row in rows}

    command_line.settled(is_listed, "transactions", "list", "--state", "completecommit")


def test_the_list_has_the_age_and_the_client_of_a_transaction(tmp_path: Path, name: str) -> None:
    with Oncelog(tmp_path) as broker, Wire(broker.address, "the-client") as wire:
        here = CommandLine(broker.address)
        here.create(name)
        producer = new_identity(wire, name)
        assert (
            produce(wire, name, batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
        )
        (row,) = here.json("transactions", "list")
        assert row["client_id"] == "the-client"
        assert row["age_ms"] >= 0


def test_abort_and_find_hanging_need_complete_arguments(command_line: CommandLine) -> None:
    place = ("--topic", "t", "--partition", "0")
    assert command_line.call("transactions", "abort", *place).exit_code == 2
    assert command_line.call("transactions", "find-hanging").exit_code == 2
    flags = ("--broker-id", "1", "--partition", "0")
    assert command_line.call("transactions", "find-hanging", *flags).exit_code == 2


def test_the_error_for_an_unknown_transactional_id_names_the_id(
    command_line: CommandLine, name: str
) -> None:
    arguments = ("transactions", "describe", "--transactional-id", name)
    assert name in command_line.refused(*arguments)


def test_options_may_stand_before_the_verb_as_in_kafkas_tool(command_line: CommandLine) -> None:
    server = ("--bootstrap-server", command_line.address)
    for arguments in ((*server, "list"), ("list", *server)):
        nowhere = CommandLine("localhost:1")
        assert isinstance(nowhere.json("transactions", *arguments), list)
