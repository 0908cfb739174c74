"""Kafka's own Java client behind the interface `Client`. `JavaDriver` runs the client in a JVM."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance.clients.interface import (
    ANSWER_TIMEOUT_S,
    SESSION_MS,
    Received,
    Record,
    Refused,
)
from tests.harness.kafka.driver import JavaDriver, JavaError, from_text, java_config, to_text

_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
_FENCED = {
    "ProducerFencedException",
    "InvalidProducerEpochException",
    "FencedInstanceIdException",
}


class _Named:
    """An object in the driver's JVM, known by a name."""

    def __init__(self, driver: JavaDriver, op: str, **fields: Any) -> None:
        self.driver = driver
        self.name = str(uuid.uuid4())
        self.call(op, **fields)

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        try:
            return self.driver.call(op, name=self.name, **fields)
        except JavaError as error:
            fenced = error.kind in _FENCED
            raise Refused(error.kind, str(error), fenced=fenced) from error


class JavaProducer(_Named):
    """An idempotent Java producer, transactional if it has an id."""

    def send(self, topic: str, records: Sequence[Record]) -> list[tuple[int, int]]:
        places = self.call("send", topic=topic, records=[_to_json(record) for record in records])
        return sorted((partition, offset) for partition, offset in places["places"])

    def init_transactions(self) -> None:
        self.call("init")

    def begin(self) -> None:
        self.call("begin")

    def commit(self) -> None:
        self.call("commit")

    def abort(self) -> None:
        self.call("abort")

    def send_offsets(self, offsets: Mapping[int, int], consumer: Any) -> None:
        self.call(
            "send-offsets",
            consumer=consumer.name,
            topic=consumer.topic,
            offsets=list(offsets.items()),
        )

    def close(self) -> None:
        self.call("close-producer")


class JavaConsumer(_Named):
    """A Java consumer of one topic."""

    def __init__(self, driver: JavaDriver, topic: str, **fields: Any) -> None:
        super().__init__(driver, "consumer", topic=topic, **fields)
        self.topic = topic
        self._assignment: frozenset[int] = frozenset()

    def poll(self, timeout_s: float) -> list[Received]:
        answer = self.call("poll", timeout_ms=int(timeout_s * 1000))
        self._assignment = frozenset(answer["assignment"])
        return [_from_json(record) for record in answer["records"]]

    def assignment(self) -> frozenset[int]:
        return self._assignment

    def commit(self, offsets: Mapping[int, int]) -> None:
        self.call("commit-offsets", topic=self.topic, offsets=list(offsets.items()))

    def close(self) -> None:
        self.call("close-consumer")


class Java:
    """org.apache.kafka:kafka-clients, the reference client."""

    name = "java"
    strategies = frozenset(_ASSIGNORS)

    def __init__(self, driver: JavaDriver, security: Mapping[str, str] | None = None) -> None:
        """`security`: the settings of TLS and SASL."""
        self._driver = driver
        self._security = dict(security or {})

    def producer(
        self, address: str, *, codec: str = "none", transactional_id: str | None = None
    ) -> JavaProducer:
        settings: dict[str, Any] = {
            **self._security,
            "bootstrap.servers": address,
            "compression.type": codec,
            "linger.ms": 1,
            "delivery.timeout.ms": int(ANSWER_TIMEOUT_S * 1000),
            "request.timeout.ms": 10_000,
            "max.block.ms": int(ANSWER_TIMEOUT_S * 1000),
        }
        if transactional_id is not None:
            settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": 20_000}
        return JavaProducer(self._driver, "producer", config=java_config(settings))

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
    ) -> JavaConsumer:
        settings: dict[str, Any] = {
            **self._security,
            "bootstrap.servers": address,
            "group.id": group or f"reader-{uuid.uuid4()}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            "partition.assignment.strategy": _ASSIGNORS[strategy],
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 200,
            "fetch.max.wait.ms": 100,
            "default.api.timeout.ms": int(ANSWER_TIMEOUT_S * 1000),
        }
        if instance_id is not None:
            settings["group.instance.id"] = instance_id
        place = {"partitions": list(partitions)} if partitions else {}
        config = java_config(settings)
        return JavaConsumer(self._driver, topic, config=config, **place)


def _to_json(record: Record) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "timestamp": record.timestamp,
        "key": to_text(record.key),
        "value": to_text(record.value),
        "headers": [[name, to_text(value)] for name, value in record.headers],
    }


def _from_json(record: Mapping[str, Any]) -> Received:
    return Received(
        partition=record["partition"],
        offset=record["offset"],
        timestamp=record["timestamp"],
        key=from_text(record["key"]),
        value=from_text(record["value"]),
        headers=tuple((name, from_text(value) or b"") for name, value in record["headers"]),
    )
