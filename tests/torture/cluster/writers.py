"""Producers of three client libraries that write until they are stopped. After an error, a producer
starts again, with its next value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import confluent_kafka

from oncelog_client.sync import Producer
from tests.cluster.foreign_clients import JavaTransactionalProducer
from tests.cluster.steady_clients import (
    IdempotentProducer,
    OwnIdempotentProducer,
    OwnTransactionalProducer,
    TransactionalProducer,
    Writing,
)
from tests.conformance.clients.interface import Record
from tests.conformance.clients.java import JavaProducer
from tests.harness.kafka.driver import JavaDriver, java_config
from tests.torture.copier import RECONNECT

PAUSE_S = 0.05
PAUSE_AFTER_ERROR_S = 0.5
JAVA_BATCH = 5
# Longer than a fault: a record has no outcome while the fault lasts.
DELIVERY_S = 120


class Writer(Writing):
    """A producer that starts again after an error. `errors` has the errors that an
    application would get."""

    # Without idempotence, a retry may write a record again.
    is_idempotent: ClassVar = True

    @property
    def attempted(self) -> list[str]:
        """Return all values in their order, including those that were not acknowledged."""
        return [f"{self.name}-{number:06}" for number in range(1, self._next + 1)]

    def acknowledged_s(self, value: str) -> float:
        """Return the time at which an acknowledged value was acknowledged."""
        values_each = max(len(self.written) // max(len(self.successes), 1), 1)
        return self.successes[self.written.index(value) // values_each]

    def _run(self) -> None:
        while not self._stops.is_set():
            try:
                self._write()
            except Exception as error:  # counted; a value without an outcome may have been written
                self.errors.append(repr(error))
                self._stops.wait(PAUSE_AFTER_ERROR_S)

    def _write(self) -> None:
        self.open()
        try:
            while not self._stops.wait(PAUSE_S):
                self.step()
        finally:
            self.close()


class Idempotent(Writer, IdempotentProducer):
    """librdkafka with acks=all and idempotence."""


class Plain(Writer, IdempotentProducer):
    """librdkafka with acks=all and without idempotence."""

    is_idempotent = False

    def open(self) -> None:
        config: dict[str, Any] = {"bootstrap.servers": self.address, "log_level": 0, "acks": "all"}
        self._producer = confluent_kafka.Producer({**config, "linger.ms": 0, **RECONNECT})


class Transactional(Writer, TransactionalProducer):
    """librdkafka with a transaction for every two records."""


class OwnIdempotent(Writer, OwnIdempotentProducer):
    """Our client with acks=all and idempotence."""


class OwnPlain(Writer, OwnIdempotentProducer):
    """Our client with acks=all and without idempotence."""

    is_idempotent = False

    def open(self) -> None:
        self._producer = Producer(self.address, enable_idempotence=False)
        self._producer.start()


class OwnTransactional(Writer, OwnTransactionalProducer):
    """Our client with a transaction for every two records."""


class JavaIdempotent(Writer):
    """Java's client with acks=all and idempotence, and several records in flight."""

    def __init__(self, address: str, topic: str, partitions: int, folder: Path) -> None:
        super().__init__(type(self).__name__, address, topic)
        self._partitions = partitions
        self._driver = JavaDriver(folder)

    def open(self) -> None:
        settings: Mapping[str, object] = {
            "bootstrap.servers": self.address,
            "acks": "all",
            "linger.ms": 1,
            "request.timeout.ms": 10_000,
            "delivery.timeout.ms": DELIVERY_S * 1000,
            "max.block.ms": DELIVERY_S * 1000,
        }
        self._producer = JavaProducer(self._driver, "producer", config=java_config(settings))

    def step(self) -> None:
        values = [self.value() for _ in range(JAVA_BATCH)]
        records = [
            Record(value.encode(), partition=number % self._partitions)
            for number, value in enumerate(values)
        ]
        self._producer.send(self.topic, records)
        self.written += values
        self.succeeded()

    def close(self) -> None:
        try:
            self._producer.close()
        finally:
            self._driver.close()


class JavaTransactional(Writer, JavaTransactionalProducer):
    """Java's client with a transaction for every two records."""


def writers(address: str, topic: str, partitions: int, java: Path | None) -> list[Writer]:
    """Return the producers, not started. `java` is the folder for the logs of the Java producers.
    If it is None, there are none."""
    kinds = (Idempotent, Plain, Transactional, OwnIdempotent, OwnPlain, OwnTransactional)
    found: list[Writer] = [kind(kind.__name__, address, topic) for kind in kinds]
    if java is not None:
        for of_java in (JavaIdempotent, JavaTransactional):
            folder = java / of_java.__name__
            folder.mkdir(parents=True)
            found.append(of_java(address, topic, partitions, folder))
    return found
