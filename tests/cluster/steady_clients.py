"""Clients that continue to work while brokers stop and start. Each notes the times of its
successes, and every error that it gives to its application."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import confluent_kafka

from oncelog_client.sync import Producer

CALL_S = 30.0
PAUSE_S = 0.01


class SteadyClient:
    """Repeats `step` in a thread until `stop`. `successes` are times in s."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.successes: list[float] = []
        self.errors: list[str] = []
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stops.set()
        self._thread.join()

    @property
    def longest_gap_s(self) -> float:
        """Return the longest time between two successes."""
        return max((later - earlier for earlier, later in pairwise(self.successes)), default=0.0)

    def succeeded(self) -> None:
        self.successes.append(time.monotonic())

    def open(self) -> None: ...

    def step(self) -> None:
        raise NotImplementedError

    def close(self) -> None: ...

    def _run(self) -> None:
        try:
            self.open()
            while not self._stops.wait(PAUSE_S):
                self.step()
            self.close()
        except Exception as error:  # the test fails with all errors of all clients
            self.errors.append(repr(error))


class Writing(SteadyClient):
    """A client that writes numbered values to a topic. `written` are those that succeeded."""

    def __init__(self, name: str, address: str, topic: str) -> None:
        super().__init__(name)
        self.address = address
        self.topic = topic
        self.written: list[str] = []
        self._next = 0

    def value(self) -> str:
        self._next += 1
        return f"{self.name}-{self._next:06}"


def _config(address: str, **more: object) -> dict[str, object]:
    # The error callback gets the lost connections, which librdkafka makes again by itself.
    return {
        "bootstrap.servers": address,
        "log_level": 0,
        **{key.replace("_", "."): value for key, value in more.items()},
    }


class IdempotentProducer(Writing):
    """librdkafka with acks=all and idempotence, many requests in flight."""

    def open(self) -> None:
        config = _config(self.address, acks="all", enable_idempotence=True, linger_ms=0)
        self._producer = confluent_kafka.Producer(config)

    def step(self) -> None:
        value = self.value()
        self._producer.produce(self.topic, value, on_delivery=self._delivered)
        self._producer.poll(0)

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        if error is not None:
            self.errors.append(str(error))
            return
        self.written.append(message.value().decode())
        self.succeeded()

    def close(self) -> None:
        if self._producer.flush(CALL_S):
            self.errors.append("records without an outcome")


class TransactionalProducer(Writing):
    """librdkafka with a transaction for every two records."""

    def open(self) -> None:
        self._producer = confluent_kafka.Producer(
            _config(self.address, transactional_id=self.name, linger_ms=0)
        )
        self._producer.init_transactions(CALL_S)

    def step(self) -> None:
        values = [self.value(), self.value()]
        self._producer.begin_transaction()
        for value in values:
            self._producer.produce(self.topic, value)
        self._producer.commit_transaction(CALL_S)
        self.written += values
        self.succeeded()


class OwnIdempotentProducer(Writing):
    """Our client, one record at a time."""

    def open(self) -> None:
        self._producer = Producer(self.address)
        self._producer.start()

    def step(self) -> None:
        value = self.value()
        self._producer.send_and_wait(self.topic, value.encode())
        self.written.append(value)
        self.succeeded()

    def close(self) -> None:
        self._producer.close()


class OwnTransactionalProducer(Writing):
    """Our client, with a transaction for every two records."""

    def open(self) -> None:
        self._producer = Producer(self.address, transactional_id=self.name)
        self._producer.start()
        self._producer.init_transactions()

    def step(self) -> None:
        values = [self.value(), self.value()]
        with self._producer.transaction():
            for value in values:
                self._producer.send(self.topic, value.encode())
        self.written += values
        self.succeeded()

    def close(self) -> None:
        self._producer.close()


class GroupConsumer(SteadyClient):
    """A member of a librdkafka consumer group that commits after each read."""

    def __init__(self, name: str, address: str, topic: str) -> None:
        super().__init__(name)
        self.address = address
        self.topic = topic
        self.read: Counter[str] = Counter()

    def open(self) -> None:
        self._consumer = confluent_kafka.Consumer(
            _config(
                self.address,
                group_id=self.name,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
            )
        )
        self._consumer.subscribe([self.topic])

    def step(self) -> None:
        found = self._consumer.consume(100, 0.1)
        for message in found:
            if message.error():
                self.errors.append(str(message.error()))
            else:
                self.read[message.value().decode()] += 1
        if found:
            self._consumer.commit(asynchronous=False)
            self.succeeded()

    def close(self) -> None:
        self._consumer.close()


class SteadyClients:
    """Some clients at work, as a context manager."""

    def __init__(self, *clients: SteadyClient) -> None:
        self.clients = clients

    def __enter__(self) -> SteadyClients:
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.clients:
            client.stop()

    @property
    def errors(self) -> dict[str, list[str]]:
        """Return the errors of the clients that had some."""
        return {client.name: client.errors for client in self.clients if client.errors}

    def have_advanced(self) -> Callable[[], bool]:
        """Return a condition that holds when each client has succeeded again, or has failed."""
        before = [len(client.successes) for client in self.clients]
        return lambda: all(
            len(client.successes) > count or client.errors
            for client, count in zip(self.clients, before, strict=True)
        )
