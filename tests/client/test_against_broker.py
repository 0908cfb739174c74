"""Producer and consumer with a running broker: oncelog, and Apache Kafka as the control."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest

from oncelog_client import (
    Admin,
    ClosedError,
    Consumer,
    FencedInstanceError,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    RecordTooLargeError,
    RetriableError,
    TopicPartition,
)
from oncelog_protocol.errors import ErrorCode
from tests.harness.client_reading import (
    DEADLINE_S,
    eventually,
    partitions_of,
    poll_until,
    read,
    read_values,
)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_a_record_arrives_as_it_was_sent(
    bootstrap: str, lasting_topic: str, codec: str
) -> None:
    value = b"compressible " * 50
    async with Producer(bootstrap, compression_type=codec) as producer:
        sent = await producer.send(
            lasting_topic,
            value,
            b"key",
            partition=1,
            timestamp_ms=1_700_000_000_123,
            headers=[("one", b"1"), ("none", None)],
        )
        written = await sent
        await (await producer.send(lasting_topic, None, None, partition=1))
    assert (written.topic, written.partition, written.offset) == (lasting_topic, 1, 0)
    async with Consumer(bootstrap) as consumer:
        await consumer.assign([TopicPartition(lasting_topic, 1)])
        await consumer.seek_to_beginning()
        first, second = await read(consumer, 2)
    assert (first.key, first.value, first.timestamp_ms) == (b"key", value, 1_700_000_000_123)
    assert first.headers == (("one", b"1"), ("none", None))
    assert (second.key, second.value, second.offset) == (None, None, 1)


async def test_many_records_arrive_in_order_and_once(bootstrap: str, topic: str) -> None:
    count = 5000
    async with Producer(bootstrap, batch_size=2000) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, partition=0)
        await producer.flush()
    assert await read_values(bootstrap, topic, committed=False) == [b"%d" % n for n in range(count)]


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_every_kind_of_acks_delivers(bootstrap: str, topic: str, acks: Any) -> None:
    tp = TopicPartition(topic, 0)
    async with Consumer(bootstrap) as consumer:
        # Wait for the leader of the new partition. With acks=0 the producer would not learn that
        # there is none, and the record would be lost.
        assert await consumer.end_offsets([tp]) == {tp: 0}
        async with Producer(bootstrap, acks=acks, enable_idempotence=False) as producer:
            written = await (await producer.send(topic, b"v", partition=0))
            assert written.offset == (-1 if acks == 0 else 0)
        await consumer.assign([tp])
        await consumer.seek_to_beginning()
        assert [record.value for record in await read(consumer, 1)] == [b"v"]


async def test_send_waits_while_the_buffer_is_full_and_no_record_is_lost(
    bootstrap: str, topic: str
) -> None:
    async with Producer(bootstrap, buffer_memory=20_000, batch_size=4000) as producer:
        for _ in range(300):
            await producer.send(topic, b"x" * 500, partition=0)
    assert len(await read_values(bootstrap, topic, committed=False)) == 300


async def test_a_record_above_max_request_size_is_refused_at_once(
    producer: Producer, topic: str
) -> None:
    with pytest.raises(RecordTooLargeError):
        await producer.send(topic, b"x" * 1_100_000)


async def test_a_record_too_large_for_the_topic_fails_alone(
    bootstrap: str, producer: Producer, topic: str
) -> None:
    async with Producer(bootstrap, max_request_size=3_000_000) as generous:
        refused = await generous.send(topic, b"x" * 2_000_000, partition=0)
        with pytest.raises(RecordTooLargeError):
            await refused
        assert (await (await generous.send(topic, b"small", partition=0))).offset == 0


async def test_a_request_without_a_response_is_a_retriable_error() -> None:
    with pytest.raises(RetriableError):
        async with Producer("127.0.0.1:1", request_timeout_ms=200, delivery_timeout_ms=1000):
            raise AssertionError("connected to no listener")


async def test_an_invalid_topic_name_is_refused_at_once(producer: Producer) -> None:
    with pytest.raises(KafkaError) as caught:
        await producer.send("not/a/topic", b"")
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_group_continues_at_its_committed_offset(
    bootstrap: str, topic: str, name: str
) -> None:
    settings: dict[str, Any] = {"group_id": name, "auto_offset_reset": "earliest"}
    async with Producer(bootstrap) as producer:
        for number in range(10):
            await producer.send(topic, b"%d" % number, partition=0)
    async with Consumer(bootstrap, enable_auto_commit=False, **settings) as consumer:
        await consumer.subscribe([topic])
        await read(consumer, 10)
        await consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(4, "note")})
        found = await consumer.committed(TopicPartition(topic, 0), TopicPartition(topic, 1))
        assert found[TopicPartition(topic, 0)] == OffsetAndMetadata(4, "note")
        assert found[TopicPartition(topic, 1)] is None
    async with Consumer(bootstrap, **settings) as consumer:
        await consumer.subscribe(topic)
        assert [record.offset for record in await read(consumer, 6)] == [4, 5, 6, 7, 8, 9]
    # The close has committed the polled records.
    async with Consumer(bootstrap, **settings) as consumer:
        await consumer.subscribe([topic])
        await poll_until([consumer], consumer.assignment)
        assert await consumer.position(TopicPartition(topic, 0)) == 10


async def test_a_commit_after_an_iteration_covers_only_the_yielded_records(
    bootstrap: str, producer: Producer, topic: str, name: str
) -> None:
    for number in range(10):
        await producer.send(topic, b"%d" % number, partition=0)
    await producer.flush()
    async with Consumer(bootstrap, group_id=name, auto_offset_reset="earliest") as consumer:
        await consumer.subscribe([topic])
        async for record in consumer:
            if record.offset == 3:
                break
        await consumer.commit()
        found = await consumer.committed(TopicPartition(topic, 0))
    assert found[TopicPartition(topic, 0)] == OffsetAndMetadata(4, "", 0)


class Remembering(RebalanceListener):
    """Records the callbacks that it gets."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    async def on_partitions_assigned(
        self, partitions: Sequence[TopicPartition], generation_id: int
    ) -> None:
        self.events.append(("assigned", len(partitions)))

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("revoked", len(partitions)))


@pytest.mark.parametrize(
    ("strategy", "events"),
    [
        ("range", [("assigned", 2), ("revoked", 2), ("assigned", 1)]),
        ("roundrobin", [("assigned", 2), ("revoked", 2), ("assigned", 1)]),
        ("cooperative-sticky", [("assigned", 2), ("revoked", 1), ("assigned", 0)]),
    ],
)
async def test_a_second_member_takes_its_share(
    bootstrap: str, topic: str, name: str, strategy: Any, events: list[tuple[str, int]]
) -> None:
    settings: dict[str, Any] = {
        "group_id": name,
        "partition_assignment_strategy": [strategy],
        "heartbeat_interval_ms": 100,
    }
    listener = Remembering()
    async with Consumer(bootstrap, **settings) as first:
        await first.subscribe([topic], listener)
        await poll_until([first], lambda: len(first.assignment()) == 2)
        async with Consumer(bootstrap, **settings) as second:
            await second.subscribe([topic])
            await poll_until(
                [first, second],
                lambda: len(first.assignment()) == 1 and len(second.assignment()) == 1,
            )
            assert not first.assignment() & second.assignment()
        assert [entry for entry in listener.events if entry != ("assigned", 0)] == [
            entry for entry in events if entry != ("assigned", 0)
        ]
        # The second member has left, so the first member has all partitions again.
        await poll_until([first], lambda: len(first.assignment()) == 2)


async def test_the_first_of_two_consumers_with_one_instance_id_is_fenced(
    bootstrap: str, topic: str, name: str
) -> None:
    settings: dict[str, Any] = {
        "group_id": name,
        "group_instance_id": "one",
        "heartbeat_interval_ms": 100,
    }
    async with Consumer(bootstrap, **settings) as first, Consumer(bootstrap, **settings) as second:
        await first.subscribe([topic])
        await poll_until([first], first.assignment)
        await second.subscribe([topic])
        await poll_until([second], second.assignment)
        with pytest.raises(FencedInstanceError):
            await poll_until([first], lambda: False)
        await poll_until([second], second.assignment)


async def test_a_pattern_finds_topics_that_are_created_later(
    bootstrap: str, admin: Admin, name: str
) -> None:
    await admin.create_topics([f"{name}-1"])
    async with Consumer(bootstrap, group_id=name, metadata_max_age_ms=200) as consumer:
        await consumer.subscribe(re.compile(f"{name}-.*"))
        await poll_until([consumer], consumer.assignment)
        await admin.create_topics([f"{name}-2"])
        await poll_until([consumer], lambda: len({tp.topic for tp in consumer.assignment()}) == 2)


async def test_positions_can_be_set(bootstrap: str, producer: Producer, lasting_topic: str) -> None:
    tp = TopicPartition(lasting_topic, 0)
    for number in range(10):
        await producer.send(lasting_topic, b"%d" % number, partition=0, timestamp_ms=1000 + number)
    await producer.flush()
    async with Consumer(bootstrap) as consumer:
        await consumer.assign(await partitions_of(consumer, lasting_topic))
        consumer.seek(tp, 7)
        assert [record.offset for record in await read(consumer, 3)] == [7, 8, 9]
        await consumer.seek_to_beginning(tp)
        assert await consumer.position(tp) == 0
        assert (await read(consumer, 1))[0].offset == 0
        await consumer.seek_to_end()
        assert await consumer.position(tp) == 10
        assert await consumer.beginning_offsets([tp]) == {tp: 0}
        assert await consumer.end_offsets([tp]) == {tp: 10}
        found = await consumer.offsets_for_times({tp: 1005})
        answer = found[tp]
        assert answer is not None
        assert (answer.offset, answer.timestamp_ms) == (5, 1005)
        assert await consumer.offsets_for_times({tp: 2000}) == {tp: None}
        consumer.seek(tp, 4)
        assert await consumer.lag(tp) == {tp: 6}
        await read(consumer, 1)
        assert consumer.current_lag(tp) is not None


async def test_a_paused_partition_returns_no_records(
    bootstrap: str, producer: Producer, topic: str
) -> None:
    first, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for partition in (0, 1):
        await (await producer.send(topic, b"v", partition=partition))
    async with Consumer(bootstrap) as consumer:
        await consumer.assign([first, two])
        await consumer.seek_to_beginning()
        consumer.pause(first)
        assert [record.partition for record in await read(consumer, 1)] == [1]
        assert await consumer.poll(100) == []
        assert consumer.paused() == {first}
        consumer.resume()
        assert [record.partition for record in await read(consumer, 1)] == [0]


async def test_waiting_records_of_a_paused_partition_hold_up_no_other_partition(
    bootstrap: str, topic: str
) -> None:
    """A former defect: waiting records of a paused partition filled the limit of fetched
    records."""
    first, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with Producer(bootstrap, linger_ms=1000) as producer:
        for _ in range(10):
            await producer.send(topic, b"x" * 100, partition=0)
        await producer.flush()
        await (await producer.send(topic, b"v", partition=1))
    settings: dict[str, Any] = {"fetch_max_bytes": 500, "auto_offset_reset": "earliest"}
    async with Consumer(bootstrap, **settings) as consumer:
        await consumer.assign([first])
        given = await consumer.poll(DEADLINE_S * 1000, max_records=1)
        assert [record.partition for record in given] == [0]
        consumer.pause(first)
        await consumer.assign([first, two])
        assert [record.partition for record in await read(consumer, 1)] == [1]
        consumer.resume(first)
        assert len(await read(consumer, 9)) == 9


async def test_a_position_out_of_range_is_reset_or_raises(
    bootstrap: str, producer: Producer, topic: str
) -> None:
    tp = TopicPartition(topic, 0)
    await (await producer.send(topic, b"v", partition=0))
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([tp])
        consumer.seek(tp, 100)
        assert (await read(consumer, 1))[0].offset == 0
    async with Consumer(bootstrap, auto_offset_reset="none") as consumer:
        await consumer.assign([tp])
        with pytest.raises(NoOffsetForPartitionError):
            await consumer.poll(DEADLINE_S * 1000)


async def test_a_call_that_the_state_of_the_client_forbids_is_refused(
    bootstrap: str, producer: Producer, topic: str
) -> None:
    async with Consumer(bootstrap) as consumer:
        with pytest.raises(IllegalStateError):
            await consumer.poll()
        with pytest.raises(IllegalStateError):
            await consumer.subscribe([topic])
        with pytest.raises(IllegalStateError):
            consumer.seek(TopicPartition(topic, 0), 1)
        with pytest.raises(IllegalStateError):
            await consumer.commit({TopicPartition(topic, 0): 1})
    with pytest.raises(ClosedError):
        await consumer.poll()
    with pytest.raises(IllegalStateError):
        await producer.begin_transaction()
    await producer.close()
    with pytest.raises(ClosedError):
        await producer.send(topic, b"v")


async def test_closing_ends_an_iteration(bootstrap: str, topic: str, name: str) -> None:
    consumer = Consumer(bootstrap, group_id=name)
    await consumer.start()
    await consumer.subscribe([topic])

    async def iterate() -> int:
        return len([record async for record in consumer])

    task = asyncio.create_task(iterate())

    async def assigned() -> bool:
        return bool(consumer.assignment())

    await eventually(assigned)
    await consumer.close()
    async with asyncio.timeout(DEADLINE_S):
        assert await task == 0
