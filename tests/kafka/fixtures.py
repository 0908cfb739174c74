"""Pytest fixtures around Apache Kafka; without Java or Maven they skip (a failure on CI)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.jars import KafkaUnavailable, classpath
from tests.kafka.kafka import Kafka

# After a kill the controller waits for the end of the old session before it takes the broker back.
# Not shorter: a machine that stands still for a moment would fence it without a kill.
QUICK_RESTART = {"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "500"}

# How often Kafka looks for transactions to abort and logs to compact: 10 and 15 s by default,
# longer than a test may wait.
QUICK_TIMEOUTS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
}


@pytest.fixture(scope="session")
def kafka_jars() -> str:
    """The class path of Apache Kafka 4.3.1."""
    try:
        return classpath()
    except KafkaUnavailable as reason:
        pytest.skip(f"Apache Kafka cannot be run: {reason}")


@pytest.fixture(scope="session")
def kafka(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """One Apache Kafka node for the whole session: never stop it in a test."""
    with Kafka(tmp_path_factory.mktemp("kafka"), QUICK_TIMEOUTS) as broker:
        yield broker


@pytest.fixture
def fresh_kafka(kafka_jars: str, tmp_path: Path) -> Iterator[Kafka]:
    """An Apache Kafka node of the test's own, to stop, kill and look into."""
    with Kafka(tmp_path / "kafka", QUICK_RESTART) as broker:
        yield broker
