"""A source of input that never ends by itself: a thread with an idempotent producer."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from confluent_kafka import Producer

from tests.ecosystem.background import Background
from tests.harness.waiting import DEADLINE_S

# A producer keeps its records during a restart of the broker.
_DELIVERY_TIMEOUT_MS = 300_000


class Feeder(Background):
    """Writes the record `record(number)`, a key and a value, for the numbers from 0 on, at `rate`
    records a second, until the end of the context. Then `written` is the number of records, and
    every one is delivered exactly once."""

    def __init__(
        self, address: str, topic: str, record: Callable[[int], tuple[str, str]], rate: float
    ) -> None:
        super().__init__()
        self._topic = topic
        self._record = record
        self._pause_s = 1 / rate
        self._failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "delivery.timeout.ms": _DELIVERY_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self.written = 0

    def work(self) -> None:
        while not self.is_over(self._pause_s):
            key, value = self._record(self.written)
            self._producer.produce(self._topic, value, key, on_delivery=self._delivered)
            self._producer.poll(0)
            self.written += 1

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failures.append(str(error))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        undelivered = self._producer.flush(DEADLINE_S)
        if error is None:
            assert not undelivered, f"{undelivered} records are undelivered"
            assert not self._failures, self._failures
