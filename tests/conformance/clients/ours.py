"""oncelog's own client behind the interface that the conformance scripts use."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Mapping, Sequence
from typing import Any, cast

import oncelog_client
from oncelog_client.config import AssignorName, ConsumerSettings, ProducerSettings
from oncelog_client.core.security_settings import SecuritySettings
from tests.conformance.clients.interface import SESSION_MS, Received, Record
from tests.conformance.clients.threaded_loop import ThreadedLoop

_FENCED = {"ProducerFencedError", "FencedInstanceError"}


class OursProducer:
    """An idempotent producer of oncelog's client, transactional if it has a transactional id."""

    def __init__(self, loop: ThreadedLoop, address: str, settings: ProducerSettings) -> None:
        self._loop = loop

        async def start() -> oncelog_client.Producer:
            producer = oncelog_client.Producer(address, **settings)
            await producer.start()
            return producer

        self._producer = loop.run(start())

    def send(self, topic: str, records: Sequence[Record]) -> list[tuple[int, int]]:
        return self._loop.run(self._send(topic, records))

    async def _send(self, topic: str, records: Sequence[Record]) -> list[tuple[int, int]]:
        sent = [
            await self._producer.send(
                topic,
                record.value,
                record.key,
                headers=record.headers,
                partition=record.partition,
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]
        await self._producer.flush()
        places = [await future for future in sent]
        return sorted((place.partition, place.offset) for place in places)

    def init_transactions(self) -> None:
        self._loop.run(self._producer.init_transactions())

    def begin(self) -> None:
        self._loop.run(self._producer.begin_transaction())

    def commit(self) -> None:
        self._loop.run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run(self._producer.abort_transaction())

    def send_offsets(self, offsets: Mapping[int, int], consumer: Any) -> None:
        places, metadata = consumer.places(offsets), consumer.consumer.group_metadata()
        self._loop.run(self._producer.send_offsets_to_transaction(places, metadata))

    def close(self) -> None:
        self._loop.run(self._producer.close(1_000))


class OursConsumer:
    """A consumer of one topic with our client."""

    def __init__(
        self,
        loop: ThreadedLoop,
        address: str,
        settings: ConsumerSettings,
        topic: str,
        partitions: Sequence[int],
    ) -> None:
        self._loop = loop
        self._topic = topic
        self._polling: concurrent.futures.Future[Any] | None = None

        async def start() -> oncelog_client.Consumer:
            consumer = oncelog_client.Consumer(address, **settings)
            await consumer.start()
            if partitions:
                places = [
                    oncelog_client.TopicPartition(topic, partition) for partition in partitions
                ]
                await consumer.assign(places)
            else:
                await consumer.subscribe(topic)
            return consumer

        self.consumer = loop.run(start())

    def poll(self, timeout_s: float) -> list[Received]:
        # A rebalance runs in `poll` and may take longer than its timeout. Meanwhile this thread
        # must poll the other members of the group.
        if self._polling is None:
            self._polling = self._loop.start(self.consumer.poll(timeout_s * 1000))
        concurrent.futures.wait([self._polling], timeout_s + 0.1)
        if not self._polling.done():
            return []
        polled, self._polling = self._polling, None
        return [_received(record) for record in self._loop.result(polled)]

    def assignment(self) -> frozenset[int]:
        return frozenset(partition.partition for partition in self.consumer.assignment())

    def places(self, offsets: Mapping[int, int]) -> dict[Any, Any]:
        """Return the offsets in our client's types."""
        return {
            oncelog_client.TopicPartition(self._topic, partition): oncelog_client.OffsetAndMetadata(
                offset
            )
            for partition, offset in offsets.items()
        }

    def commit(self, offsets: Mapping[int, int]) -> None:
        self._loop.run(self.consumer.commit(self.places(offsets)))

    def close(self) -> None:
        self._loop.run(self.consumer.close(5_000))


class Ours:
    """oncelog_client, which also works with Apache Kafka."""

    name = "oncelog-client"
    strategies = frozenset({"range", "roundrobin", "cooperative-sticky"})

    def __init__(self, security: SecuritySettings | None = None) -> None:
        """`security`: the settings of TLS and SASL."""
        self._security: SecuritySettings = security or {}
        self._loop = ThreadedLoop("oncelog-client", oncelog_client.KafkaError, _FENCED)

    def producer(
        self, address: str, *, codec: str = "none", transactional_id: str | None = None
    ) -> OursProducer:
        settings: ProducerSettings = {
            "compression_type": codec,
            "linger_ms": 1,
            "request_timeout_ms": 10_000,
        }
        settings.update(cast(ProducerSettings, self._security))
        if transactional_id is not None:
            settings["transactional_id"] = transactional_id
            settings["transaction_timeout_ms"] = 20_000
        settings.update(cast(ProducerSettings, self._security))
        return OursProducer(self._loop, address, settings)

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
    ) -> OursConsumer:
        settings: ConsumerSettings = {
            "group_id": group,
            "group_instance_id": instance_id,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "isolation_level": "read_committed" if read_committed else "read_uncommitted",
            "partition_assignment_strategy": (cast(AssignorName, strategy),),
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": 200,
            "fetch_max_wait_ms": 100,
        }
        settings.update(cast(ConsumerSettings, self._security))
        return OursConsumer(self._loop, address, settings, topic, partitions)


def _received(record: oncelog_client.ConsumerRecord) -> Received:
    return Received(
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp_ms,
        key=record.key,
        value=record.value,
        headers=tuple((name, value or b"") for name, value in record.headers),
    )
