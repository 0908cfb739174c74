"""After any failure in a producer, every future and every call ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.testing.broker import QUICK
from oncelog_client import (
    ClosedError,
    FatalError,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    TopicPartition,
)
from oncelog_client.core.producer_id import ProducerIdAndEpoch
from oncelog_client.core.transaction_states import Event, State
from oncelog_client.errors import DisconnectedError
from oncelog_client.io.batch_outcomes import Delivery
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.io.sender import Sender
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.records.record import EncodedRecords, NewRecord
from tests.harness.broker import Oncelog
from tests.harness.client_reading import DEADLINE_S, eventually, read_values
from tests.harness.lossy_proxy import LossyProxy

TOO_LATE = 1 << 70


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Oncelog(tmp_path_factory.mktemp("oncelog"), QUICK) as broker:
        yield broker.address


async def test_an_invalid_part_of_a_record_is_refused_and_the_producer_continues(
    producer: Producer, topic: str
) -> None:
    wrong: Any = "text"
    for fields in (
        {"value": wrong},
        {"key": wrong},
        {"headers": [(b"h", b"")]},
        {"partition": 1.0},
    ):
        with pytest.raises(TypeError):
            await producer.send(topic, **fields)
    with pytest.raises(ValueError, match="timestamp_ms"):
        await producer.send(topic, b"", timestamp_ms=1 << 63)
    for name in (7, "\ud800"):
        unnamed: Any = name
        with pytest.raises((TypeError, ValueError), match="topic"):
            await producer.send(unnamed, b"")
    await producer.partitions_for(topic)
    async with asyncio.timeout(DEADLINE_S):
        await (await producer.send(topic, b"good"))


async def test_a_batch_that_cannot_be_encoded_fails_alone(
    bootstrap: str, producer: Producer, topic: str
) -> None:
    partition = TopicPartition(topic, 0)
    good = [await producer.send(topic, b"before", partition=0)]
    bad = await producer.send_encoded(partition, EncodedRecords(b"", 1, TOO_LATE, TOO_LATE))
    good.append(await producer.send(topic, b"after", partition=0))
    async with asyncio.timeout(DEADLINE_S):
        await producer.flush()
    assert isinstance(bad.exception(), KafkaError)
    assert [future.result().offset for future in good] == [0, 1]
    assert await read_values(bootstrap, topic, committed=False) == [b"before", b"after"]


async def test_a_transaction_with_a_batch_that_cannot_be_encoded_is_aborted(
    bootstrap: str, topic: str, name: str
) -> None:
    async with Producer(bootstrap, transactional_id=name) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(topic, b"aborted", partition=1)
        bad = EncodedRecords(b"", 1, TOO_LATE, TOO_LATE)
        await producer.send_encoded(TopicPartition(topic, 0), bad)
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(KafkaError, match="cannot be encoded"):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(topic, b"committed", partition=0)
    assert await read_values(bootstrap, topic, committed=True) == [b"committed"]


async def test_an_error_of_a_response_fails_every_batch_of_the_request() -> None:
    producer = Producer("127.0.0.1:9", transactional_id="x")
    acc, core = producer._accumulator, producer._transaction
    assert core is not None
    core.apply(Event.INIT)
    core.initialized(ProducerIdAndEpoch(7, 0))
    acc.adopt(core.identity)
    sender = Sender(producer._cluster, producer.config, acc, core)
    loop = asyncio.get_running_loop()
    partitions = [TopicPartition("t", number) for number in range(3)]
    deliveries: list[Delivery] = [loop.create_future() for _ in partitions]
    for partition, delivery in zip(partitions, deliveries, strict=True):
        acc.append(partition, NewRecord(0, None, b""), delivery, 0)
    batches = acc.drain(partitions, 1_000, 1 << 20)
    response: asyncio.Future[object] = loop.create_future()
    response.set_exception(DisconnectedError("the broker has closed the connection"))
    acc.aborting = True
    # Outside a transaction no batch can be in flight, so the test sets the number by hand.
    sender._in_flight[1] = 1
    sender._responded(1, batches, response)
    assert [type(delivery.exception()) for delivery in deliveries] == [DisconnectedError] * 3
    assert acc.oldest_serial() is None
    assert core.state is State.FATAL_ERROR
    await producer._cluster.close()


async def test_a_new_generation_begins_although_a_response_to_produce_is_lost(
    tmp_path: Path, name: str
) -> None:
    inputs = [TopicPartition("in", 0)]
    with LossyProxy() as proxy, Oncelog(tmp_path, QUICK | proxy.advertised) as broker:
        proxy.target = broker.address
        async with (
            asyncio.timeout(DEADLINE_S),
            Producer(proxy.address, transactional_id=name, linger_ms=60_000) as producer,
        ):
            await producer.init_transactions(inputs, name, 1)
            await producer.begin_transaction()
            for topic in ("out", "other"):
                await producer.send(topic, b"older")
            proxy.to_lose[ApiKey.PRODUCE] = 1
            flushing = asyncio.create_task(producer.flush())

            async def is_sent() -> bool:
                return any(batch.was_sent for batch in producer._accumulator.batches())

            await eventually(is_sent)
            await producer.init_transactions(inputs, name, 2)
            await flushing
            assert proxy.lost == 1
            async with producer.transaction():
                await producer.send("out", b"newer")
            assert await read_values(proxy.address, "out", committed=True) == [b"newer"]


async def test_a_send_that_waits_for_room_is_refused_when_the_producer_closes(
    tmp_path: Path,
) -> None:
    with Oncelog(tmp_path, QUICK) as broker:
        producer = Producer(broker.address, buffer_memory=1_000, batch_size=500)
        await producer.start()
        await (await producer.send("t", b"there"))
        broker.kill()
        buffered = await producer.send("t", b"x" * 900)
        waiting = asyncio.create_task(producer.send("t", b"y" * 900))

        async def waits_for_room() -> bool:
            return producer._accumulator.flushes_in_progress == 1

        await eventually(waits_for_room)
        async with asyncio.timeout(DEADLINE_S):
            await producer.close(timeout_ms=0)
            with pytest.raises(ClosedError):
                await buffered
            with pytest.raises(ClosedError):
                await waiting
    assert producer._accumulator.oldest_serial() is None


async def test_a_send_that_waits_for_metadata_is_refused_when_the_producer_closes(
    producer: Producer, topic: str
) -> None:
    never = asyncio.get_running_loop().create_future()
    # The partition has no leader, so `close` waits for this record until `close` times out.
    producer._accumulator.append(
        TopicPartition("t", 99), NewRecord(0, None, b""), never, monotonic_ms()
    )

    async def waits_for_metadata() -> bool:
        return topic in producer._cluster._waiting

    async def closes() -> bool:
        return producer._accumulator.flushes_in_progress == 1

    async with asyncio.timeout(DEADLINE_S):
        async with producer._cluster._refreshing:
            waiting = asyncio.create_task(producer.send(topic, b""))
            await eventually(waits_for_metadata)
            # The close takes longer than the metadata, so the send finds a closing producer.
            closing = asyncio.create_task(producer.close(timeout_ms=5_000))
            await eventually(closes)
        with pytest.raises(ClosedError, match="not open"):
            await waiting
        await closing
        with pytest.raises(ClosedError):
            await never


async def test_records_that_linger_fail_with_their_transaction(
    bootstrap: str, topic: str, name: str
) -> None:
    lingering = Producer(bootstrap, transactional_id=name, linger_ms=10_000 * DEADLINE_S)
    async with lingering, Producer(bootstrap, transactional_id=name) as newer:
        await lingering.init_transactions()
        await lingering.begin_transaction()
        delivery = await lingering.send(topic, b"old", partition=0)
        await newer.init_transactions()
        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(1)}
        with pytest.raises(ProducerFencedError):
            await lingering.send_offsets_to_transaction(offsets, name)
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(ProducerFencedError):
                await delivery


def break_sender(producer: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the sender fail in its next turn."""

    def broken(now_ms: float) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(producer._accumulator, "expire", broken)


async def test_a_sender_that_ends_fails_pending_and_later_calls(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asyncio.timeout(DEADLINE_S), Producer(bootstrap, linger_ms=60_000) as producer:
        pending = await producer.send(topic, b"never written")
        break_sender(producer, monkeypatch)
        await producer.flush()
        with pytest.raises(FatalError, match="a defect"):
            await pending
        for call in (producer.send(topic, b""), producer.flush(), producer.partitions_for(topic)):
            with pytest.raises(FatalError, match="a defect"):
                await call


async def test_a_commit_without_a_sender_does_not_succeed(
    bootstrap: str, topic: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        asyncio.timeout(DEADLINE_S),
        Producer(bootstrap, transactional_id=name, linger_ms=60_000) as producer,
    ):
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(topic, b"never written")
        break_sender(producer, monkeypatch)
        with pytest.raises(FatalError, match="a defect"):
            await producer.commit_transaction()
