"""Transactions through the admin client: oncelog, and Apache Kafka as the control."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_client import (
    Admin,
    ConsumerGroupMetadata,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    TopicPartition,
)
from oncelog_client.admin import AbortTransactionSpec
from oncelog_protocol.errors import ErrorCode
from tests.client.refusing import refused
from tests.harness.client_reading import DEADLINE_S, eventually


async def test_an_open_transaction_is_described_and_listed(
    admin: Admin, bootstrap: str, topic: str
) -> None:
    place = TopicPartition(topic, 0)
    assert await admin.describe_producers([place]) == {place: ()}
    async with Producer(bootstrap, transactional_id=topic) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(topic, b"v", partition=0)
        await producer.flush()
        (state,) = (await admin.describe_producers([place], broker_id=1))[place]
        assert state.current_transaction_start_offset == 0
        assert (state.last_sequence, state.coordinator_epoch) == (0, None)
        (listing,) = await admin.list_transactions(
            states=["Ongoing"], producer_ids=[state.producer_id], duration_ms=0
        )
        assert (listing.transactional_id, listing.state) == (topic, "Ongoing")
        described = (await admin.describe_transactions([topic]))[topic]
        assert described.producer_id == state.producer_id
        assert described.topic_partitions == {place}
        assert described.transaction_start_time_ms is not None
        assert described.coordinator_id == listing.coordinator_id == 1
        await producer.abort_transaction()

    async def ended() -> bool:
        (state,) = (await admin.describe_producers([place]))[place]
        return state.current_transaction_start_offset is None and (
            state.coordinator_epoch is not None
        )

    await eventually(ended)


async def test_a_fenced_producer_cannot_commit(admin: Admin, bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap, transactional_id=topic) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(topic, b"v", partition=0)
        await producer.flush()
        before = (await admin.describe_transactions([topic]))[topic]
        ((producer_id, epoch),) = (await admin.fence_producers([topic])).values()
        assert producer_id == before.producer_id
        assert epoch > before.producer_epoch
        with pytest.raises(ProducerFencedError):
            await producer.commit_transaction()

    async def stable() -> bool:
        found = await admin.list_offsets(
            {TopicPartition(topic, 0): "latest"}, isolation_level="read_committed"
        )
        return [record.offset for record in found.values()] == [2]

    await eventually(stable)


async def test_a_fenced_producer_closes_without_waiting_for_its_records(
    admin: Admin, bootstrap: str, topic: str
) -> None:
    """A fenced producer can send neither its records nor EndTxn."""
    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(1)}
    async with asyncio.timeout(DEADLINE_S):
        # The records linger while the offsets are refused. Otherwise the broker would refuse the
        # records first.
        async with Producer(bootstrap, transactional_id=topic, linger_ms=2_000) as producer:
            await producer.init_transactions()
            await admin.fence_producers([topic])
            await producer.begin_transaction()
            written = await producer.send(topic, b"v", partition=0)
            with pytest.raises(ProducerFencedError):
                await producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(topic))
            with pytest.raises(KafkaError):
                await written


async def test_impossible_requests_are_refused_with_kafkas_codes(
    admin: Admin, name: str, topic: str
) -> None:
    unknown = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert await refused(admin.describe_transactions([f"{name}-none"])) is unknown
    pattern = admin.list_transactions(transactional_id_pattern="(")
    assert await refused(pattern) is ErrorCode.INVALID_REGULAR_EXPRESSION
    states = admin.list_transactions(states=["Nothing"])
    assert await refused(states) is ErrorCode.INVALID_REQUEST
    place = TopicPartition(topic, 0)
    unknown_broker = admin.describe_producers([place], broker_id=77)
    assert await refused(unknown_broker) is ErrorCode.BROKER_NOT_AVAILABLE


async def test_a_marker_needs_the_producers_epoch(admin: Admin, bootstrap: str, topic: str) -> None:
    place = TopicPartition(topic, 0)
    async with Producer(bootstrap, transactional_id=topic) as producer:
        await producer.init_transactions()
        for _ in range(2):
            await producer.begin_transaction()
            await producer.send(topic, b"v", partition=0)
            await producer.commit_transaction()

    async def bumped() -> bool:
        (state,) = (await admin.describe_producers([place]))[place]
        return state.producer_epoch == 2

    await eventually(bumped)
    (state,) = (await admin.describe_producers([place]))[place]
    stale = AbortTransactionSpec(place, state.producer_id, state.producer_epoch - 1)
    with pytest.raises(KafkaError) as caught:
        await admin.abort_transaction(stale)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
