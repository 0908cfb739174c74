"""`oncelog transactions find-hanging | abort | blocking`, on oncelog and on Apache Kafka."""

from __future__ import annotations

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from tests.client.cli.conftest import CommandLine
from tests.conformance.conftest import Target
from tests.harness.hanging import hanging
from tests.harness.transacting import add_partitions, last_stable_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import batch, end_transaction, find_coordinator, new_identity, produce


@pytest.fixture
def command_line(target: Target) -> CommandLine:
    return CommandLine(target.address)


def test_l12_a_hanging_transaction_is_found_and_aborted(trusting: Target, name: str) -> None:
    call = CommandLine(trusting.address)
    find = ("transactions", "find-hanging", "--topic", name, "--max-transaction-timeout", "0")
    with Wire(trusting.address) as wire:
        assert call.json(*find) == []
        producer = hanging(wire, name)
        (found,) = call.json(*find)
        assert (found["partition"], found["start_offset"]) == (0, 0)
        assert (found["producer_id"], found["producer_epoch"]) == (producer.producer_id, 0)
        assert found["coordinator_epoch"] is None
        everywhere = ("transactions", "find-hanging", "--broker-id", "1", *find[-2:])
        assert [row for row in call.json(*everywhere) if row["topic"] == name] == [found]
        assert call.json(*find[:-1], "10") == []
        place = ("--topic", name, "--partition", "0")
        (done,) = call.json("transactions", "abort", *place, "--start-offset", "0")
        assert (done["producer_id"], done["result"]) == (producer.producer_id, "aborted")
        assert last_stable_offset(wire, name) == (2, 2)
        assert call.json(*find) == []
        again = call.refused("transactions", "abort", *place, "--start-offset", "0")
        assert "no open transaction" in again


def test_l12_the_blocking_command_shows_a_hanging_transaction_and_aborts_it(
    trusting: Target, name: str
) -> None:
    call = CommandLine(trusting.address)
    with Wire(trusting.address) as wire:
        producer = hanging(wire, name)
        (row,) = call.json("transactions", "blocking", name)
        assert (row["state"], row["transactional_id"], row["client_id"]) == ("Hanging", None, None)
        assert (row["producer_id"], row["held_records"]) == (producer.producer_id, 1)
        assert (row["client_address"], row["two_phase"]) == (None, None)
        assert row["age_ms"] < 60_000
        (done,) = call.json("transactions", "blocking", name, "--abort", str(producer.producer_id))
        assert done["how"] == f"by a marker: {name}-0"
        assert last_stable_offset(wire, name) == (2, 2)


def test_the_blocking_command_shows_the_producer_that_holds_readers_back(
    target: Target, command_line: CommandLine, topic: str
) -> None:
    """The row names the transaction, its age, and the number of records and bytes from its first
    record on."""
    assert command_line.json("transactions", "blocking", topic) == []
    with Wire(target.address, "the-writer") as wire:
        producer = new_identity(wire, topic, timeout_ms=50_000)
        assert (
            produce(wire, topic, batch(producer, 0, count=2), producer=producer).error_code
            == ErrorCode.NONE
        )
        assert (
            produce(wire, topic, batch(producer, 0), producer=producer, partition=2).error_code == 0
        )
        assert produce(wire, topic, batch(new_identity(wire), 0)).error_code == ErrorCode.NONE
        rows = command_line.json("transactions", "blocking", topic)
        (described,) = command_line.json("transactions", "describe", topic)
    assert [(row["partition"], row["start_offset"]) for row in rows] == [(0, 0), (2, 0)]
    first = rows[0]
    assert (first["transactional_id"], first["state"]) == (topic, "Ongoing")
    assert (first["producer_id"], first["producer_epoch"]) == (producer.producer_id, 0)
    assert [row["held_records"] for row in rows] == [3, 1]
    assert 0 <= first["age_ms"] < 60_000
    assert [row["two_phase"] for row in rows] == [False, False]
    # Kafka's response does not name the client.
    theirs = ("the-writer", "/127.0.0.1") if target.name == "oncelog" else (None, None)
    for shown in (*rows, described):
        assert (shown["client_id"], shown["client_address"]) == theirs
    if target.name == "oncelog":
        assert 0 < first["time_left_ms"] <= 50_000
        held = [batch(producer, 0, count=2), batch(producer, 0)]
        assert [row["held_bytes"] for row in rows] == [len(held[0]) + len(held[1]), len(held[1])]


def test_a_transaction_that_its_coordinator_knows_is_aborted_through_the_coordinator(
    command_line: CommandLine, wire: Wire, topic: str
) -> None:
    """The abort reaches all partitions of the transaction, and afterwards its producer is
    refused."""
    producer = new_identity(wire, topic)
    places = ((topic, 0), (topic, 1))
    assert add_partitions(wire, producer, *places[:1]) == [ErrorCode.NONE]
    assert produce(wire, topic, batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
    (done,) = command_line.json("transactions", "blocking", topic, "--abort", topic)
    assert done["how"] == f"by its coordinator: {topic}"
    wait_until(lambda: last_stable_offset(wire, topic) == (2, 2), "the abort marker")
    ended = end_transaction(wire, producer, commit=True)
    assert ErrorCode(ended.error_code).name == "PRODUCER_FENCED"
    assert command_line.json("transactions", "blocking", topic) == []
    nothing = command_line.refused("transactions", "blocking", topic, "--abort", topic)
    assert "no open transaction" in nothing


def test_force_terminate_works_under_kafkas_name_too(
    command_line: CommandLine, wire: Wire, topic: str
) -> None:
    find_coordinator(wire, topic)
    unknown = command_line.refused("transactions", "force-terminate", topic)
    assert f"no transactional id '{topic}'" in unknown
    producer = new_identity(wire, topic)
    assert add_partitions(wire, producer, (topic, 0)) == [ErrorCode.NONE]
    command_line.text("transactions", "force-terminate", topic)
    verb = ("transactions", "forceTerminateTransaction", "--transactionalId", topic)
    command_line.text(*verb)
    (row,) = command_line.json("transactions", "describe", topic)
    assert row["transaction_state"] == "Empty"
    assert row["producer_epoch"] > producer.producer_epoch
