"""`oncelog transactions` against a running broker."""

from __future__ import annotations

from oncelog_client.cli.transactions import latest_states
from oncelog_client.values import ConsumerRecord
from oncelog_protocol.internal.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    encode_transaction_log_key,
    encode_transaction_log_value,
)
from tests.client.cli.conftest import CommandLine


def state_record(transactional_id: str, value: TransactionLogValue | None) -> ConsumerRecord:
    key = encode_transaction_log_key(TransactionLogKey(transactional_id))
    body = None if value is None else encode_transaction_log_value(value)
    return ConsumerRecord("__transaction_state", 7, 0, 0, key, body)


def test_the_last_record_of_an_id_is_its_state_and_a_tombstone_its_end() -> None:
    ongoing = TransactionLogValue(
        producer_id=5,
        transaction_status=TransactionState.ONGOING,
        transaction_start_timestamp_ms=99,
        transaction_partitions=[PartitionsSchema("t", [0, 2])],
    )
    states = latest_states(
        [
            state_record("a", TransactionLogValue(producer_id=1)),
            state_record("gone", TransactionLogValue()),
            state_record("a", ongoing),
            state_record("gone", None),
            ConsumerRecord("__transaction_state", 7, 0, 0, b"\x00\x63", b"of another type"),
        ]
    )
    assert set(states) == {"a"}
    assert (states["a"].state, states["a"].partition) == ("Ongoing", 7)
    assert states["a"].topic_partitions == ["t-0", "t-2"]
    assert states["a"].start_time_ms == 99


def test_a_transactional_id_is_listed_and_described(command_line: CommandLine, topic: str) -> None:
    command_line.text("produce", "--topic", topic, "--transactional-id", topic, lines="a\n")
    rows = {row["transactional_id"]: row for row in command_line.json("transactions", "list")}
    assert rows[topic]["transaction_state"] in {"PrepareCommit", "CompleteCommit"}
    (row,) = command_line.json("transactions", "describe", "--transactional-id", topic)
    assert row["producer_id"] == rows[topic]["producer_id"]
    assert row["transaction_timeout_ms"] == 60_000
    assert command_line.json("transactions", "describe", topic) == [row]


def test_describe_takes_one_transactional_id(command_line: CommandLine) -> None:
    assert command_line.call("transactions", "describe").exit_code == 2
    flags = ("--transactional-id", "a")
    assert command_line.call("transactions", "describe", *flags, "b").exit_code == 2


def test_states_can_be_picked(command_line: CommandLine, topic: str) -> None:
    command_line.text("produce", "--topic", topic, "--transactional-id", topic, lines="a\n")
    ongoing = command_line.json("transactions", "list", "--state", "Ongoing")
    assert topic not in {row["transactional_id"] for row in ongoing}


def test_an_unknown_transactional_id_is_said_to_be_unknown(
    command_line: CommandLine, name: str
) -> None:
    arguments = ("transactions", "describe", "--transactional-id", name)
    assert name in command_line.refused(*arguments)


def test_options_may_stand_before_the_verb_as_in_kafkas_tool(command_line: CommandLine) -> None:
    server = ("--bootstrap-server", command_line.address)
    for arguments in ((*server, "list"), ("list", *server)):
        nowhere = CommandLine("localhost:1")
        assert isinstance(nowhere.json("transactions", *arguments), list)
