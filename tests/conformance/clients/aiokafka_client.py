"""aiokafka behind the interface of the scripts. Its event loop runs in its own thread."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Mapping, Sequence
from typing import Any

import aiokafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from tests.conformance.clients.interface import SESSION_MS, Received, Record
from tests.conformance.clients.threaded_loop import ThreadedLoop

_ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
_FENCED = {"ProducerFenced", "InvalidProducerEpoch", "FencedInstanceIdError"}


class AiokafkaProducer:
    """An idempotent aiokafka producer, transactional if it has an id."""

    def __init__(self, loop: ThreadedLoop, settings: Mapping[str, Any]) -> None:
        self._loop = loop

        async def start() -> Any:
            producer = aiokafka.AIOKafkaProducer(**settings)
            if "transactional_id" not in settings:
                await producer.start()
            return producer

        self._producer = loop.run(start())

    def send(self, topic: str, records: Sequence[Record]) -> list[tuple[int, int]]:
        return self._loop.run(self._send(topic, records))

    async def _send(self, topic: str, records: Sequence[Record]) -> list[tuple[int, int]]:
        sent = [
            await self._producer.send(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp,
                headers=list(record.headers),
            )
            for record in records
        ]
        await self._producer.flush()
        places = [await future for future in sent]
        return sorted((place.partition, place.offset) for place in places)

    def init_transactions(self) -> None:
        self._loop.run(self._producer.start())

    def begin(self) -> None:
        self._loop.run(self._producer.begin_transaction())

    def commit(self) -> None:
        self._loop.run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run(self._producer.abort_transaction())

    def send_offsets(self, offsets: Mapping[int, int], consumer: Any) -> None:
        places = consumer.places(offsets)
        self._loop.run(self._producer.send_offsets_to_transaction(places, consumer.group))

    def close(self) -> None:
        self._loop.run(self._producer.stop())


class AiokafkaConsumer:
    """An aiokafka consumer of one topic."""

    def __init__(
        self, loop: ThreadedLoop, settings: Mapping[str, Any], topic: str, partitions: Sequence[int]
    ) -> None:
        self._loop = loop
        self._topic = topic
        self.group = settings["group_id"]
        self._polling: concurrent.futures.Future[Any] | None = None

        async def start() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(**settings)
            if partitions:
                consumer.assign(
                    [aiokafka.TopicPartition(topic, partition) for partition in partitions]
                )
            else:
                consumer.subscribe([topic])
            try:
                await consumer.start()
            except BaseException:
                await consumer.stop()
                raise
            return consumer

        self.consumer = loop.run(start())

    def poll(self, timeout_s: float) -> list[Received]:
        # During a rebalance getmany waits longer than its timeout. Meanwhile this thread must poll
        # the other members of the group.
        if self._polling is None:
            timeout_ms = int(timeout_s * 1000)
            self._polling = self._loop.start(self.consumer.getmany(timeout_ms=timeout_ms))
        concurrent.futures.wait([self._polling], timeout_s + 0.1)
        if not self._polling.done():
            return []
        polled, self._polling = self._polling, None
        batches = self._loop.result(polled)
        return [_received(record) for batch in batches.values() for record in batch]

    def assignment(self) -> frozenset[int]:
        return frozenset(partition.partition for partition in self.consumer.assignment())

    def places(self, offsets: Mapping[int, int]) -> dict[Any, Any]:
        """Return the offsets in aiokafka's types."""
        return {
            aiokafka.TopicPartition(self._topic, partition): OffsetAndMetadata(offset, "")
            for partition, offset in offsets.items()
        }

    def commit(self, offsets: Mapping[int, int]) -> None:
        self._loop.run(self.consumer.commit(self.places(offsets)))

    def close(self) -> None:
        self._loop.run(self.consumer.stop())


class Aiokafka:
    """aiokafka, the asyncio client."""

    name = "aiokafka"
    strategies = frozenset(_ASSIGNORS)

    def __init__(self, security: Mapping[str, Any] | None = None) -> None:
        """`security`: the settings of TLS and SASL."""
        self._security = dict(security or {})
        self._loop = ThreadedLoop("aiokafka", KafkaError, _FENCED)

    def producer(
        self, address: str, *, codec: str = "none", transactional_id: str | None = None
    ) -> AiokafkaProducer:
        settings: dict[str, Any] = {
            **self._security,
            "bootstrap_servers": address,
            "compression_type": None if codec == "none" else codec,
            "enable_idempotence": True,
            "request_timeout_ms": 10_000,
        }
        if transactional_id is not None:
            settings |= {"transactional_id": transactional_id, "transaction_timeout_ms": 20_000}
        return AiokafkaProducer(self._loop, settings)

    def consumer(
        self,
        address: str,
        topic: str,
        *,
        group: str | None = None,
        partitions: Sequence[int] = (),
        read_committed: bool = False,
        strategy: str = "range",
        instance_id: str | None = None,
    ) -> AiokafkaConsumer:
        settings: dict[str, Any] = {
            **self._security,
            "bootstrap_servers": address,
            "group_id": group,
            "group_instance_id": instance_id,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "isolation_level": "read_committed" if read_committed else "read_uncommitted",
            "partition_assignment_strategy": (_ASSIGNORS[strategy],),
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": 200,
            "fetch_max_wait_ms": 100,
        }
        return AiokafkaConsumer(self._loop, settings, topic, partitions)


def _received(record: Any) -> Received:
    return Received(
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        key=record.key,
        value=record.value,
        headers=tuple((name, value) for name, value in record.headers),
    )
