"""A copier as for Kafka 0.11, on aiokafka. It has a producer for each input partition, sends
offsets with the group id alone, and does not wait for pending offsets."""

from __future__ import annotations

import asyncio
import random
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from tests.copiers.work import (
    ABORT_PROBABILITY,
    FATAL_EXIT_CODE,
    MAX_RECORDS,
    Work,
)


class Tasks(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """A producer for each assigned partition. Its initialization fences the previous producer."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.producers: dict[int, Any] = {}
        # aiokafka rebalances in the background. The lock keeps rebalances out of transactions.
        self.working = asyncio.Lock()
        self.shares = 0

    async def on_partitions_assigned(self, assigned: Any) -> None:
        for partition in assigned:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.work.address,
                transactional_id=self.work.task_id(partition.partition),
                transaction_timeout_ms=self.work.timeout_ms,
            )
            await producer.start()
            self.producers[partition.partition] = producer

    async def on_partitions_revoked(self, revoked: Any) -> None:
        async with self.working:
            self.shares += 1
            producers, self.producers = self.producers, {}
            for producer in producers.values():
                await producer.stop()


async def copy_as_of_old(work: Work, stopped: asyncio.Event) -> int:
    """Copy until stopped. Return the exit code of the process."""
    tasks = Tasks(work)
    randomness = random.Random(work.number)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=work.address,
        group_id=work.name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=work.session_ms,
        heartbeat_interval_ms=200,
        isolation_level="read_uncommitted",
        partition_assignment_strategy=(RangePartitionAssignor,),
    )
    await consumer.start()
    consumer.subscribe([work.input], listener=tasks)
    try:
        while not stopped.is_set():
            shares = tasks.shares
            polled = await consumer.getmany(timeout_ms=100, max_records=MAX_RECORDS)
            async with tasks.working:
                for place, records in polled.items():
                    producer = tasks.producers.get(place.partition)
                    if tasks.shares == shares and producer is not None:
                        await _transfer(work, consumer, producer, place, records, randomness)
                    elif place in consumer.assignment():
                        # The records were read before or during a rebalance, so the loop reads them
                        # again.
                        await _rewind(consumer, place)
    except KafkaError as error:
        sys.stderr.write(f"copier {work.number} (old) ends: {error!r}\n")
        return FATAL_EXIT_CODE
    finally:
        await tasks.on_partitions_revoked(())
        await consumer.stop()
    return 0


async def _transfer(
    work: Work,
    consumer: Any,
    producer: Any,
    place: TopicPartition,
    records: Any,
    randomness: random.Random,
) -> None:
    await producer.begin_transaction()
    for record in records:
        await producer.send(work.output, record.value, partition=place.partition)
    offsets = {place: records[-1].offset + 1}
    await producer.send_offsets_to_transaction(offsets, work.name)
    if randomness.random() < ABORT_PROBABILITY:
        await producer.abort_transaction()
        await _rewind(consumer, place)
    else:
        await producer.commit_transaction()


async def _rewind(consumer: Any, place: TopicPartition) -> None:
    consumer.seek(place, await consumer.committed(place) or 0)
