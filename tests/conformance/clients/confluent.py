"""confluent-kafka (librdkafka) behind the interface `Client`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import confluent_kafka as ck

from tests.conformance.clients.interface import (
    ANSWER_TIMEOUT_S,
    SESSION_MS,
    Received,
    Record,
    Refused,
)
from tests.harness.committing import commit_offsets

_FENCED = {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "FENCED_INSTANCE_ID"}


def _refused(error: Any) -> Refused:
    return Refused(error.name(), error.str(), fenced=error.name() in _FENCED)


def _raising(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except ck.KafkaException as error:
        raise _refused(error.args[0]) from error


class ConfluentProducer:
    """An idempotent librdkafka producer, transactional if it has an id."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._producer = ck.Producer(dict(settings))
        self._topics: dict[str, str] = {}

    def send(self, topic: str, records: Sequence[Record]) -> list[tuple[int, int]]:
        outcomes: list[tuple[Any, Any]] = []
        for record in records:
            stamp = {} if record.timestamp is None else {"timestamp": record.timestamp}
            self._producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                headers=list(record.headers),
                on_delivery=lambda error, message: outcomes.append((error, message)),
                **stamp,
            )
        left = _raising(self._producer.flush, ANSWER_TIMEOUT_S)
        for error, _ in outcomes:
            if error is not None:
                raise _refused(error)
        if left:
            raise Refused("_TIMED_OUT", f"{left} records without a response")
        return sorted((message.partition(), message.offset()) for _, message in outcomes)

    def init_transactions(self) -> None:
        _raising(self._producer.init_transactions, ANSWER_TIMEOUT_S)

    def begin(self) -> None:
        _raising(self._producer.begin_transaction)

    def commit(self) -> None:
        _raising(self._producer.commit_transaction, ANSWER_TIMEOUT_S)

    def abort(self) -> None:
        _raising(self._producer.abort_transaction, ANSWER_TIMEOUT_S)

    def send_offsets(self, offsets: Mapping[int, int], consumer: Any) -> None:
        places = consumer.places(offsets)
        metadata = consumer.consumer.consumer_group_metadata()
        _raising(self._producer.send_offsets_to_transaction, places, metadata, ANSWER_TIMEOUT_S)

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(0)


class ConfluentConsumer:
    """A librdkafka consumer of one topic."""

    def __init__(self, settings: Mapping[str, Any], topic: str, partitions: Sequence[int]) -> None:
        self.consumer = ck.Consumer(dict(settings))
        self._topic = topic
        self._is_static = "group.instance.id" in settings
        if partitions:
            self.consumer.assign(
                [ck.TopicPartition(topic, partition, 0) for partition in partitions]
            )
        else:
            self.consumer.subscribe([topic])

    def poll(self, timeout_s: float) -> list[Received]:
        return [self._received(message) for message in self.consumer.consume(500, timeout_s)]

    def assignment(self) -> frozenset[int]:
        return frozenset(partition.partition for partition in self.consumer.assignment())

    def places(self, offsets: Mapping[int, int]) -> list[Any]:
        """Return the offsets in librdkafka's types."""
        return [ck.TopicPartition(self._topic, *place) for place in offsets.items()]

    def commit(self, offsets: Mapping[int, int]) -> None:
        try:
            commit_offsets(self.consumer, self.places(offsets))
        except ck.KafkaException as error:
            raise _refused(error.args[0]) from error

    def close(self) -> None:
        # librdkafka waits forever for an assignment that arrives while it closes (its issue 4884).
        # After `unsubscribe` no assignment arrives, and `poll` handles one that arrived before. A
        # static member keeps its subscription, because `unsubscribe` would make it leave its group.
        if not self._is_static:
            self.consumer.unsubscribe()
            while self.consumer.poll(0) is not None:
                pass
        self.consumer.close()

    def _received(self, message: Any) -> Received:
        if message.error() is not None:
            raise _refused(message.error())
        return Received(
            partition=message.partition(),
            offset=message.offset(),
            timestamp=message.timestamp()[1],
            key=message.key(),
            value=message.value(),
            headers=tuple(message.headers() or ()),
        )


class Confluent:
    """librdkafka, the core of most clients outside Java."""

    name = "confluent-kafka"
    strategies = frozenset({"range", "roundrobin", "cooperative-sticky"})

    def __init__(self, security: Mapping[str, Any] | None = None) -> None:
        """`security`: the settings of TLS and SASL."""
        self._security = dict(security or {})

    def producer(
        self, address: str, *, codec: str = "none", transactional_id: str | None = None
    ) -> ConfluentProducer:
        settings: dict[str, Any] = {
            **self._security,
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 1,
            "message.timeout.ms": int(ANSWER_TIMEOUT_S * 1000),
            "log_level": 0,
        }
        if transactional_id is not None:
            settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": 20_000}
        return ConfluentProducer(settings)

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
    ) -> ConfluentConsumer:
        settings: dict[str, Any] = {
            **self._security,
            "bootstrap.servers": address,
            "group.id": group or f"reader-{uuid.uuid4()}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            "partition.assignment.strategy": strategy,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": 100,
            "check.crcs": True,
            "log_level": 0,
        }
        if instance_id is not None:
            settings["group.instance.id"] = instance_id
        return ConfluentConsumer(settings, topic, partitions)
