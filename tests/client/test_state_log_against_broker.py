"""A partition keeps the state of processes that share a producer (the parent), on oncelog and on
Apache Kafka."""

from __future__ import annotations

import pytest

from oncelog_client import (
    Admin,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    TopicPartition,
)
from oncelog_client.core.logged_batches import LoggedBatch
from tests.harness.client_reading import eventually


def entries(batches: list[LoggedBatch]) -> list[tuple[int, bool | None, list[bytes | None]]]:
    """Return the last sequence number, the decision and the values of each batch."""
    return [
        (batch.last_sequence, batch.committed, [value for _, value in batch.records])
        for batch in batches
    ]


async def test_two_processes_append_one_after_the_other_under_one_epoch(
    bootstrap: str, admin: Admin, name: str
) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    place = TopicPartition(name, 0)
    parent = await admin.init_producer(name)
    log = admin.state_log(place)
    assert await log.read() == []
    await log.commit(parent, 0, [(b"k", b"0"), (b"l", b"1")])
    async with Admin(bootstrap) as other:
        theirs = other.state_log(place)
        offsets = [(place, OffsetAndMetadata(7, "seven"))]
        await theirs.commit(parent, 2, [(b"k", b"2")], group_id=name, offsets=offsets)

    async def ended() -> bool:
        return sum(bool(record.committed) for record in await log.read()) == 2

    await eventually(ended)
    batches = await log.read()
    assert entries(batches) == [
        (1, None, [b"0", b"1"]),
        (-1, True, []),
        (2, None, [b"2"]),
        (-1, True, []),
    ]
    assert {(batch.producer_id, batch.producer_epoch) for batch in batches} == {parent[1:]}
    assert await log.read(batches[1].next_offset) == batches[2:]
    assert await log.read(batches[-1].next_offset) == []
    assert (await admin.list_group_offsets(name, require_stable=True))[place][:2] == (7, "seven")


async def test_a_sequence_number_that_was_written_is_not_written_again(
    admin: Admin, name: str
) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    parent = await admin.init_producer(name)
    log = admin.state_log(TopicPartition(name, 0))
    for _ in range(2):
        await log.commit(parent, 0, [(b"k", b"0")])
    assert [entry for entry in entries(await log.read()) if entry[2]] == [(0, None, [b"0"])]


async def test_a_fenced_parent_appends_nothing_and_its_open_transaction_is_aborted(
    bootstrap: str, admin: Admin, name: str
) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    parent = await admin.init_producer(name)
    async with Producer(bootstrap, transactional_id=name) as producer:
        await producer.adopt_transactions(parent)
        await producer.begin_transaction()
        await (await producer.send(name, b"open", partition=0))
        await producer.hand_over_transaction()
    log = admin.state_log(TopicPartition(name, 0))
    assert entries(await log.read()) == [(0, None, [b"open"])]
    newer = await admin.init_producer(name)
    assert entries(await log.read()) == [(0, None, [b"open"]), (-1, False, [])]
    with pytest.raises(ProducerFencedError):
        await log.commit(parent, 1, [(b"k", b"1")])
    await log.commit(newer, 0, [(b"k", b"2")])
    values = [entry[2] for entry in entries(await log.read()) if entry[2]]
    assert values == [[b"open"], [b"2"]]


async def test_deleted_records_are_skipped(admin: Admin, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    place = TopicPartition(name, 0)
    parent = await admin.init_producer(name)
    log = admin.state_log(place)
    for number in range(3):
        await log.commit(parent, number, [(b"k", b"%d" % number)])

    async def ended() -> bool:
        return sum(bool(record.committed) for record in await log.read()) == 3

    await eventually(ended)
    before = (await log.read())[4].base_offset
    await admin.delete_records({place: before})
    assert [entry[2] for entry in entries(await log.read()) if entry[2]] == [[b"2"]]
