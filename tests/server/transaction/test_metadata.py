"""The record of a transactional id has all the state on which decisions depend."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_protocol.internal.transaction_log import (
    decode_transaction_log_key,
    decode_transaction_log_value,
)
from oncelog_server.coordinator.routing import partition_for
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.metadata import (
    GroupedTransaction,
    TransactionMetadata,
    from_value,
    to_record,
)
from oncelog_server.transaction.states import State

EPOCHS = st.integers(-1, 32767)
IDS = st.integers(-1, 2**63 - 1)
TIMES = st.integers(-1, 2**63 - 1)
PARTITIONS = st.frozensets(
    st.builds(TopicPartition, st.text(min_size=1, max_size=9), st.integers(0, 99))
)
MEMBERS = st.builds(GroupedTransaction, st.text(max_size=9), IDS, EPOCHS)


@settings(deadline=None)
@given(
    st.builds(
        TransactionMetadata,
        st.text(min_size=1, max_size=20),
        IDS,
        EPOCHS,
        st.integers(1, 2**31 - 1),
        st.sampled_from([state for state in State if state is not State.EMPTY]),
        PARTITIONS,
        EPOCHS,
        IDS,
        IDS,
        TIMES,
        TIMES,
        st.integers(0, 2),
        EPOCHS,
        st.lists(MEMBERS, max_size=3).map(tuple),
    )
)
def test_M28_a_record_carries_all_of_the_state(metadata: TransactionMetadata) -> None:
    record = to_record(metadata)
    assert record.value is not None
    transactional_id = decode_transaction_log_key(record.key).transactional_id
    assert from_value(transactional_id, decode_transaction_log_value(record.value)) == metadata
    assert to_record(metadata) == record


def test_an_empty_transaction_has_null_partitions_as_kafka_writes_it() -> None:
    record = to_record(TransactionMetadata("t", 1, 0, 1_000))
    assert record.value is not None
    assert decode_transaction_log_value(record.value).transaction_partitions is None


def test_equal_states_are_equal_bytes_whatever_the_order_of_partitions() -> None:
    partitions = [TopicPartition("b", 1), TopicPartition("a", 10), TopicPartition("a", 9)]
    records = {
        to_record(TransactionMetadata("t", 1, 0, 1_000, State.ONGOING, frozenset(order)))
        for order in (partitions, partitions[::-1])
    }
    assert len(records) == 1


LARGE = {
    "members": lambda number: TransactionMetadata(
        "t", 1, 0, 1_000,
        decided_members=tuple(
            GroupedTransaction(f"{number}/{index}", number, index) for index in range(500)
        ),
    ),
    "partitions": lambda number: TransactionMetadata(
        "t", 1, 0, 1_000, State.ONGOING,
        frozenset(TopicPartition(f"{number}/{index}", index) for index in range(500)),
    ),
    "name": lambda number: TransactionMetadata(f"{number}".zfill(10_000), 1, 0, 1_000),
}  # fmt: skip


@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE)
def test_large_records_are_not_kept_in_memory(make: Callable[[int], TransactionMetadata]) -> None:
    to_record(make(0))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(1, 20):
            record = to_record(make(number))
            partition_for(make(number).transactional_id, 50)
            assert len(record.key) + len(record.value or b"") > 5_000
        del record
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 100_000


def test_a_new_producer_id_takes_effect_with_the_complete_record() -> None:
    prepared = TransactionMetadata(
        "t", 7, 32767, 1_000, State.PREPARE_COMMIT, next_producer_id=8, last_producer_epoch=32766
    )
    completed = prepared.completed(State.COMPLETE_COMMIT, 5)
    assert (completed.producer_id, completed.producer_epoch) == (8, 0)
    assert (completed.previous_producer_id, completed.next_producer_id) == (7, -1)
    assert completed.last_producer_epoch == 32766
