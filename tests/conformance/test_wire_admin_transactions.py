"""Raw requests of KIP-664: partitions and the coordinator describe transactions."""

from __future__ import annotations

import time
from typing import Any

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)
from oncelog_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    TransactionState,
)
from oncelog_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.harness.transacting import add_partitions, last_stable_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    find_coordinator,
    new_identity,
    produce,
)


def producers(wire: Wire, topic: str, partition: int = 0) -> PartitionResponse:
    response = wire.call(DescribeProducersRequest([TopicRequest(topic, [partition])]), 0)
    found: PartitionResponse = response.topics[0].partitions[0]
    return found


def state_of(wire: Wire, transactional_id: str) -> TransactionState:
    response = wire.call(DescribeTransactionsRequest([transactional_id]), 0)
    found: TransactionState = response.transaction_states[0]
    return found


def listed(wire: Wire, version: int = 2, **filters: Any) -> ListTransactionsResponse:
    response: ListTransactionsResponse = wire.call(ListTransactionsRequest(**filters), version)
    assert response.error_code == ErrorCode.NONE
    return response


def ids(wire: Wire, version: int = 2, **filters: Any) -> set[str]:
    return {
        transaction_state.transactional_id
        for transaction_state in listed(wire, version, **filters).transaction_states
    }


def opened(wire: Wire, topic: str, *places: tuple[str, int]) -> Identity:
    """Return a producer with an open transaction, by default in the first partition of the
    topic."""
    producer = new_identity(wire, topic)
    assert add_partitions(wire, producer, *(places or ((topic, 0),))) == [0] * max(len(places), 1)
    return producer


def test_what_a_partition_knows_of_a_producer(wire: Wire, topic: str) -> None:
    """The response has the producer's epoch, last sequence number, the time of its last
    batch, and the first offset of its open transaction."""
    assert producers(wire, topic).active_producers == []
    before_ms = int(time.time() * 1000) - 1
    producer = new_identity(wire, topic)
    assert (
        produce(wire, topic, batch(producer, 0, count=3), producer=producer).error_code
        == ErrorCode.NONE
    )
    (state,) = producers(wire, topic).active_producers
    assert before_ms < state.last_timestamp <= before_ms + 60_000
    state.last_timestamp = -1
    state.held_records = state.held_bytes = -1
    expected = ProducerState(producer.producer_id, producer.producer_epoch, 2, -1, -1, 0)
    assert state == expected
    assert end_transaction(wire, producer, commit=True).error_code == ErrorCode.NONE
    wait_until(lambda: last_stable_offset(wire, topic) == (4, 4), "the marker")
    (state,) = producers(wire, topic).active_producers
    assert (state.producer_epoch, state.last_sequence) == (producer.producer_epoch + 1, -1)
    assert state.current_txn_start_offset == -1
    assert state.coordinator_epoch >= 0


@pytest.mark.parametrize(
    ("place", "partition", "code"),
    [
        ("{topic}", 99, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("{topic}-none", 0, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("no/name", 0, "INVALID_TOPIC_EXCEPTION"),
    ],
)
def test_producers_of_no_partition(
    wire: Wire, topic: str, place: str, partition: int, code: str
) -> None:
    response = producers(wire, place.format(topic=topic), partition)
    assert ErrorCode(response.error_code).name == code
    assert response.active_producers == []


def test_what_the_coordinator_knows_of_a_transaction(wire: Wire, topic: str) -> None:
    """The response has the state, timeout, start, producer and partitions."""
    producer = new_identity(wire, topic, timeout_ms=30_000)
    state = state_of(wire, topic)
    assert (state.transaction_state, state.topics) == ("Empty", [])
    assert state.transaction_start_time_ms == -1
    before_ms = int(time.time() * 1000) - 1
    assert add_partitions(wire, producer, (topic, 0)) == [ErrorCode.NONE]
    assert add_partitions(wire, producer, (topic, 2)) == [ErrorCode.NONE]
    state = state_of(wire, topic)
    assert (state.error_code, state.transactional_id) == (ErrorCode.NONE, topic)
    assert (state.transaction_state, state.transaction_timeout_ms) == ("Ongoing", 30_000)
    assert before_ms < state.transaction_start_time_ms <= before_ms + 60_000
    assert (state.producer_id, state.producer_epoch) == (
        producer.producer_id,
        producer.producer_epoch,
    )
    assert [(topic.topic, sorted(topic.partitions)) for topic in state.topics] == [(topic, [0, 2])]
    assert end_transaction(wire, producer, commit=False).error_code == ErrorCode.NONE
    wait_until(
        lambda: state_of(wire, topic).transaction_state == "CompleteAbort", "the abort is complete"
    )
    assert state_of(wire, topic).topics == []


def test_an_unknown_transactional_id(wire: Wire, name: str) -> None:
    find_coordinator(wire, name)
    assert state_of(wire, name).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert state_of(wire, "").error_code == ErrorCode.INVALID_REQUEST


def test_the_list_is_filtered_by_state_and_producer(wire: Wire, topic: str) -> None:
    """The response has unknown states in `unknown_state_filters`. With only unknown states, the
    list is empty."""
    producer = opened(wire, topic)
    idle = new_identity(wire, f"{topic}-idle")
    mine = {"producer_id_filters": [producer.producer_id, idle.producer_id]}
    assert ids(wire, 0, **mine) == {topic, f"{topic}-idle"}
    assert ids(wire, 0, **mine, state_filters=["Ongoing"]) == {topic}
    assert ids(wire, 0, **mine, state_filters=["Ongoing", "Empty"]) == {topic, f"{topic}-idle"}
    response = listed(wire, 0, **mine, state_filters=["Empty", "ongoing", "None"])
    assert sorted(response.unknown_state_filters) == ["None", "ongoing"]
    assert [
        transaction_state.transactional_id for transaction_state in response.transaction_states
    ] == [f"{topic}-idle"]
    assert ids(wire, 0, **mine, state_filters=["Nothing"]) == set()
    (transaction_state,) = listed(
        wire, 0, producer_id_filters=[producer.producer_id]
    ).transaction_states
    assert (transaction_state.producer_id, transaction_state.transaction_state) == (
        producer.producer_id,
        "Ongoing",
    )
    assert topic in ids(wire, 0)


def test_the_list_is_filtered_by_duration(wire: Wire, topic: str) -> None:
    """KIP-994: the list has only transactions that have been open longer than the filter in ms. An
    id that never began a transaction counts as open forever."""
    opened(wire, topic)
    new_identity(wire, f"{topic}-idle")
    wait_until(
        lambda: topic in ids(wire, 1, duration_filter=50), "the transaction is older than 50 ms"
    )
    found = ids(wire, 1, duration_filter=600_000)
    assert topic not in found
    assert f"{topic}-idle" in found
    assert topic in ids(wire, 1, duration_filter=-1)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("{topic}", {"{topic}"}),
        ("{topic}.*", {"{topic}", "{topic}-other"}),
        ("(?:.+)-other", {"{topic}-other"}),
        ("t-", set()),
        ("", {"{topic}", "{topic}-other"}),
        ("{topic}(-[a-z]{{5}})?", {"{topic}", "{topic}-other"}),
    ],
)
def test_the_list_is_filtered_by_a_pattern(
    wire: Wire, topic: str, pattern: str, matches: set[str]
) -> None:
    """KIP-1152: the pattern has RE2's syntax and must match the whole id."""
    identities = [new_identity(wire, name) for name in (topic, f"{topic}-other")]
    found = ids(
        wire,
        producer_id_filters=[identity.producer_id for identity in identities],
        transactional_id_pattern=pattern.format(topic=topic),
    )
    assert found == {pattern.format(topic=topic) for pattern in matches}


@pytest.mark.parametrize("pattern", ["(", "a**", "(?=a)b", "(a)\\1", "[b-a]", "a{1001}"])
def test_h31_an_invalid_or_unsupported_pattern_is_refused(
    wire: Wire, topic: str, pattern: str
) -> None:
    find_coordinator(wire, topic)
    response = wire.call(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
    assert ErrorCode(response.error_code).name == "INVALID_REGULAR_EXPRESSION"
