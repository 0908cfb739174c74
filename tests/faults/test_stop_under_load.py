"""SIGTERM while producers send. The stop is clean and takes under two seconds, and clients of the
next process have lost nothing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from oncelog.testing.wire import Wire
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, events, values
from tests.harness.waiting import wait_until
from tests.harness.watch import seconds_to_end

pytestmark = pytest.mark.usefixtures("own_interpreter")

CLEAN_STOP_S = 2.0
RESTARTS = 3


class Load:
    """Idempotent producers in threads. They send during the block of `running`."""

    def __init__(self, address: str, topic: str, producers: int) -> None:
        self.address = address
        self.topic = topic
        self.delivered: list[set[bytes]] = [set() for _ in range(producers)]
        self.sent = [0] * producers
        self.failed: list[Any] = []
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number,)) for number in range(producers)
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join(60)

    def _run(self, number: int) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.address,
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 100,
                "metadata.recovery.strategy": "none",
                "log_level": 0,
            }
        )

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self.failed.append(error)
            else:
                self.delivered[number].add(message.value())

        while not self._over.is_set():
            value = b"%d-%d" % (number, self.sent[number])
            producer.produce(self.topic, value, partition=number, on_delivery=delivered)
            self.sent[number] += 1
            producer.poll(0.001)
        assert producer.flush(30) == 0

    def wait_for_more(self) -> None:
        """Wait until 50 more records are delivered."""
        enough = sum(map(len, self.delivered)) + 50
        wait_until(lambda: sum(map(len, self.delivered)) >= enough, "records are delivered")


@pytest.mark.parametrize("flush", ["false", "true"], ids=["default", "flush on ack"])
def test_producers_continue_across_clean_stops(tmp_path: Path, flush: str) -> None:
    """Across three restarts every record is delivered once and in order, and each stop is clean."""
    broker = Oncelog(tmp_path, QUICK | {"oncelog.flush.on.ack": flush})
    broker.start()
    with Wire(broker.address) as wire:
        create(wire, "t", partitions=2)
    load = Load(broker.address, "t", 2)
    with load.running():
        for _ in range(RESTARTS):
            load.wait_for_more()
            took_s = seconds_to_end(broker._running(), signal.SIGTERM)
            assert broker.stop() == 0
            assert took_s < CLEAN_STOP_S
            assert (broker.data / ".kafka_cleanshutdown").exists()
            broker.start()
        load.wait_for_more()
    assert not load.failed
    with Wire(broker.address) as wire:
        for number in (0, 1):
            expected = [b"%d-%d" % (number, at) for at in range(load.sent[number])]
            assert values(wire, "t", partition=number) == expected
            assert load.delivered[number] == set(expected)
    assert all(event["clean"] for event in events(broker) if event["event"] == "broker stopped")
    starts = [event["clean"] for event in events(broker) if event["event"] == "broker started"]
    assert starts == [True] * (1 + RESTARTS)
    broker.stop()
