"""A reader may get only a part of a committed transaction: some records may be deleted, in
partitions of other members, or before the reader's first offset. The reader gets all other
records."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from oncelog.testing.wire import Wire
from tests.conformance.clients import Client, Record
from tests.conformance.clients.interface import Consumer, Received
from tests.conformance.conftest import Target
from tests.conformance.polling import poll_until
from tests.conformance.test_groups import shared_out
from tests.harness.driving import fetch, last_stable_offset
from tests.harness.waiting import wait_until

PARTITIONS = 3
# Each partition has a committed transaction, then an aborted one, then a last record. In each
# partition, a transaction has two batches and a marker. A reader that has got the last record of a
# partition has read the whole partition.
COMMITTED = range(5)
MARKER = 4
ABORTED = range(5, 9)
LAST = 10


def value(partition: int, offset: int) -> bytes:
    return b"%d at %d" % (partition, offset)


def batch(partition: int, first: int) -> list[Record]:
    return [Record(value(partition, first + at), partition=partition) for at in (0, 1)]


@pytest.fixture
def written(target: Target, client: Client, topic: str) -> str:
    """Return a topic with a committed transaction, an aborted one, and the last records."""
    producer = client.producer(target.address, transactional_id=topic)
    producer.init_transactions()
    for transaction in (COMMITTED, ABORTED):
        producer.begin()
        for first in (transaction.start, transaction.start + 2):
            for partition in range(PARTITIONS):
                producer.send(topic, batch(partition, first))
        producer.commit() if transaction is COMMITTED else producer.abort()
    producer.begin()
    lasts = [Record(value(partition, LAST), partition=partition) for partition in range(PARTITIONS)]
    producer.send(topic, lasts)
    producer.commit()
    producer.close()
    return topic


def rest(partition: int, first: int = 0) -> list[tuple[int, int, bytes]]:
    """Return the records of the partition that a read_committed reader gets from `first` on."""
    offsets = [*(offset for offset in COMMITTED if first <= offset != MARKER), LAST]
    return [(partition, offset, value(partition, offset)) for offset in offsets]


def found(records: list[Received]) -> list[tuple[int, int, bytes | None]]:
    return sorted((record.partition, record.offset, record.value) for record in records)


def all_of(
    reader: Consumer, partitions: Sequence[int] = range(PARTITIONS)
) -> list[tuple[int, int, bytes | None]]:
    """Return all records up to the last one of each of these partitions."""
    records: list[Received] = []

    def is_over() -> bool:
        records.extend(reader.poll(0.2))
        return {record.partition for record in records if record.offset == LAST} >= {*partitions}

    wait_until(is_over, "the last record of each partition")
    return found(records)


@pytest.mark.parametrize("first", [1, 2, 3])
def test_readers_get_the_rest_of_a_transaction_after_its_beginning_was_deleted(
    target: Target, client: Client, admin: Any, written: str, first: int
) -> None:
    """DeleteRecords ends between two batches of the transaction, or inside a batch."""
    place = TopicPartition(written, 0, first)
    assert admin.delete_records([place])[place].result().low_watermark == first
    reader = client.consumer(
        target.address, written, partitions=range(PARTITIONS), read_committed=True
    )
    assert all_of(reader) == rest(0, first) + rest(1) + rest(2)


def test_a_reader_of_some_partitions_gets_the_records_of_these_partitions(
    target: Target, client: Client, written: str
) -> None:
    reader = client.consumer(target.address, written, partitions=(0, 2), read_committed=True)
    assert all_of(reader, (0, 2)) == rest(0) + rest(2)


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_reader_that_begins_inside_a_transaction_gets_its_later_records(
    target: Target, client: Client, written: str, first: int
) -> None:
    """The committed offset is at a batch of the transaction, or inside a batch."""
    begun = client.consumer(target.address, written, group=written)
    poll_until(
        [begun], lambda: len(begun.assignment()) == PARTITIONS, "the member owns all partitions"
    )
    # In partition 1 the reader has read the whole transaction.
    begun.commit({0: first, 1: MARKER, 2: 0})
    begun.close()
    reader = client.consumer(target.address, written, group=written, read_committed=True)
    assert all_of(reader) == rest(0, first) + rest(1, MARKER) + rest(2)


def test_each_group_member_gets_the_records_in_its_own_partitions(
    target: Target, client: Client, topic: str
) -> None:
    """If two members own partitions of a transaction, neither gets all its records.

    Each member reads its part once. A member of kafka-python 3.0.12 may read records again: if its
    join ends between two polls, it sends no heartbeats until the next poll and may lose its
    session. The test commits nothing, so the next owner of the partitions starts at the beginning.
    A broker cannot distinguish such a member from a dead one.
    """
    producer = client.producer(target.address, transactional_id=topic)
    producer.init_transactions()  # called before the members join, because it takes longest
    members = [
        client.consumer(target.address, topic, group=topic, read_committed=True) for _ in range(2)
    ]
    poll_until(members, lambda: shared_out(members, PARTITIONS), "both members own partitions")
    producer.begin()
    for partition in range(PARTITIONS):
        producer.send(topic, batch(partition, 0))
    producer.commit()
    owned: list[set[int]] = [set(), set()]
    parts: list[list[Received]] = [[], []]

    def each_has_its_part() -> bool:
        for member, own, part in zip(members, owned, parts, strict=True):
            own |= member.assignment()
            part += member.poll(0.1)
            own |= member.assignment()
        return shared_out(members, PARTITIONS) and all(
            {*found(part)} >= {*expected(member.assignment())}
            for member, part in zip(members, parts, strict=True)
        )

    def expected(partitions: Collection[int]) -> list[tuple[int, int, bytes | None]]:
        return [(place, at, value(place, at)) for place in sorted(partitions) for at in (0, 1)]

    wait_until(each_has_its_part, "each member has read the part in its own partitions")
    for own, part in zip(owned, parts, strict=True):
        if client.name == "kafka-python":
            assert {*found(part)} <= {*expected(own)}
        else:
            assert found(part) == expected(own)


def test_a_fetch_from_any_offset_lists_the_aborted_transaction(
    target: Target, wire: Wire, python_clients: dict[str, Client], admin: Any, topic: str
) -> None:
    """Even if a fetch starts inside an aborted transaction, its response lists the transaction."""
    producer = python_clients["confluent-kafka"].producer(target.address, transactional_id=topic)
    producer.init_transactions()
    producer.begin()
    producer.send(topic, batch(0, 0))
    producer.send(topic, batch(0, 2))
    producer.abort()
    place = TopicPartition(topic, 0, 2)
    assert admin.delete_records([place])[place].result().low_watermark == 2
    wait_until(
        lambda: fetch(wire, topic, 3, committed=True).last_stable_offset > 3,
        "the marker, which Apache Kafka writes after its response to EndTxn",
    )
    for first in (2, 3):
        data = fetch(wire, topic, first, committed=True)
        assert data.log_start_offset == 2
        assert [
            aborted_transaction.first_offset
            for aborted_transaction in data.aborted_transactions or ()
        ] == [0]
    assert last_stable_offset(wire, topic) == 5
