"""`Producer.send_encoded` sends a batch that is already encoded, with the guarantees of `send`. All
records of the batch share one future."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_client import Admin, IllegalStateError, KafkaError, NewTopic, Producer, TopicPartition
from oncelog_client.errors import RecordTooLargeError
from oncelog_protocol.records.record import EncodedRecords, NewRecord
from tests.harness.client_reading import DEADLINE_S, eventually, read_values


def encoded(*values: bytes) -> EncodedRecords:
    return EncodedRecords.of([NewRecord(1_000, b"k", value) for value in values])


async def test_the_future_has_the_metadata_of_the_last_record(
    producer: Producer, topic: str
) -> None:
    partition = TopicPartition(topic, 1)
    first = await producer.send_encoded(partition, encoded(b"a", b"b"))
    between = await producer.send(topic, b"c", partition=1)
    last = await producer.send_encoded(partition, encoded(b"d", b"e", b"f"))
    await producer.flush()
    assert [future.result().offset for future in (first, between, last)] == [1, 2, 5]
    assert last.result()[:2] == (topic, 1)
    assert last.result().timestamp_ms == 1_000


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_encoded_batches_are_read_with_every_codec(
    bootstrap: str, topic: str, codec: str
) -> None:
    values = [b"%d" % number for number in range(500)]
    async with Producer(bootstrap, compression_type=codec) as producer:
        await producer.send_encoded(TopicPartition(topic, 0), encoded(*values))
        await producer.flush()
    assert await read_values(bootstrap, topic, committed=True) == values


async def test_a_transaction_has_all_records_of_encoded_batches(
    bootstrap: str, topic: str, name: str
) -> None:
    partition = TopicPartition(topic, 0)
    async with Producer(bootstrap, transactional_id=name) as producer:
        await producer.init_transactions()
        for outcome in (b"aborted", b"committed"):
            await producer.begin_transaction()
            for number in range(20):
                await producer.send_encoded(partition, encoded(outcome, b"%d" % number))
            if outcome == b"aborted":
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    wanted = [value for number in range(20) for value in (b"committed", b"%d" % number)]

    async def all_is_there() -> bool:
        # Kafka responds to a commit before the partitions have its markers.
        return await read_values(bootstrap, topic, committed=True) == wanted

    await eventually(all_is_there)


async def test_full_memory_holds_the_sender_back_and_loses_nothing(
    bootstrap: str, topic: str
) -> None:
    values = [b"%0500d" % number for number in range(400)]
    async with Producer(bootstrap, buffer_memory=20_000) as producer:
        for number in range(0, 400, 20):
            await producer.send_encoded(
                TopicPartition(topic, 0), encoded(*values[number : number + 20])
            )
        await producer.flush()
    assert await read_values(bootstrap, topic, committed=True) == values


async def test_a_batch_too_large_for_the_topic_is_split(
    bootstrap: str, admin: Admin, name: str
) -> None:
    await admin.create_topics([NewTopic(name, 1, 1, configs={"max.message.bytes": "2000"})])
    values = [b"%0100d" % number for number in range(100)]
    async with Producer(bootstrap) as producer:
        written = await producer.send_encoded(TopicPartition(name, 0), encoded(*values))
        await producer.flush()
    assert written.result().offset == 99
    assert await read_values(bootstrap, name, committed=True) == values


async def test_a_part_that_cannot_be_written_fails_the_whole_batch(
    bootstrap: str, admin: Admin, name: str
) -> None:
    await admin.create_topics([NewTopic(name, 1, 1, configs={"max.message.bytes": "2000"})])
    async with Producer(bootstrap, transactional_id=name) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        written = await producer.send_encoded(
            TopicPartition(name, 0), encoded(b"small", b"x" * 4000, b"small")
        )
        # The producer splits a batch that is too large. After one part is refused, the later parts
        # fail at once, so `flush` does not wait for delivery_timeout_ms.
        async with asyncio.timeout(DEADLINE_S):
            await producer.flush()
        assert isinstance(written.exception(), RecordTooLargeError)
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await producer.commit_transaction()
        await producer.abort_transaction()
    assert await read_values(bootstrap, name, committed=True) == []


async def test_a_batch_that_can_never_be_sent_is_refused_at_once(
    bootstrap: str, topic: str
) -> None:
    async with Producer(bootstrap, max_request_size=1_000) as producer:
        with pytest.raises(RecordTooLargeError, match="2 records"):
            await producer.send_encoded(TopicPartition(topic, 0), encoded(b"x" * 900, b"y" * 900))
        with pytest.raises(KafkaError, match="has no partition 2"):
            await producer.send_encoded(TopicPartition(topic, 2), encoded(b"x"))
    async with Producer(bootstrap, enable_idempotence=False) as producer:
        with pytest.raises(IllegalStateError, match="enable_idempotence"):
            await producer.send_encoded(TopicPartition(topic, 0), encoded(b"x"))
