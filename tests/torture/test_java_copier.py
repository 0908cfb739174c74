"""Kafka's own transactional copier (Java, KIP-447), while the broker and the copier are killed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.harness.broker import Oncelog
from tests.harness.dying import last_death
from tests.harness.kafka.tools import start_tool
from tests.torture.audit import read_all
from tests.torture.copier import INPUT, OUTPUT, RECONNECT
from tests.torture.run import BROKER_SETTINGS, create_topics
from tests.torture.workload import PARTITIONS

RECORDS = 8_000
# The broker kills itself at these points, one after another. It reaches all of them within a
# quarter of the transactions.
KILLED_AT = ("after-data:60", "before-prepare:25", "after-marker:100", "before-complete:25")
DEADLINE_S = 120.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Oncelog]:
    """A stopped broker with a filled input topic."""
    with Oncelog(tmp_path / "oncelog", BROKER_SETTINGS) as running:
        settings = {"bootstrap.servers": running.address, **RECONNECT}
        create_topics(settings)
        producer = Producer(settings)
        for number in range(RECORDS):
            producer.produce(INPUT, f"{number:05}", partition=number % PARTITIONS)
        assert producer.flush(30) == 0
        running.stop()
        yield running


def start_copier(broker: Oncelog) -> subprocess.Popen[bytes]:
    """Start the copier in group mode. It ends at the end of the input."""
    return start_tool(
        "transactional-message-copier",
        *("--broker-list", broker.address, "--transactional-id", "java-copier"),
        *("--input-topic", INPUT, "--input-partition", "-1", "--output-topic", OUTPUT),
        *("--consumer-group", "java-copiers", "--transaction-size", "20"),
        *("--transaction-timeout", "10000", "--enable-random-aborts"),
        *("--group-mode", "--use-group-metadata"),
        log=broker.directory / "copier.log",
    )


def test_javas_copier_over_kills(kafka_jars: str, broker: Oncelog) -> None:
    """The broker dies at each point of KILLED_AT, and the copier is killed once. The restarted
    copier copies the rest, and every record is copied once."""
    kills_left = [*KILLED_AT]
    broker.fail_at(kills_left[0])
    broker.start()
    deadline = time.monotonic() + DEADLINE_S
    copier = start_copier(broker)
    try:
        while copier.poll() != 0:
            assert time.monotonic() < deadline, f"not copied in {DEADLINE_S} s"
            if copier.poll() is not None:
                copier = start_copier(broker)
            if broker._running().poll() is not None:
                assert last_death(broker) == kills_left.pop(0)
                broker.fail_at(kills_left[0] if kills_left else None)
                broker.start()
                if len(kills_left) == len(KILLED_AT) // 2:
                    copier.kill()
            time.sleep(0.02)
    finally:
        copier.kill()
        copier.wait()
    assert not kills_left
    copied = [
        value
        for values in read_all({"bootstrap.servers": broker.address}, OUTPUT).values()
        for value in values
    ]
    assert sorted(copied) == [f"{number:05}" for number in range(RECORDS)]
