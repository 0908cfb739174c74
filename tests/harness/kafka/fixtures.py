"""Pytest fixtures of Apache Kafka. Without Java or Maven the tests skip, or fail on CI."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from oncelog.testing.broker import QUICK
from tests.harness.kafka.jars import KafkaUnavailable, class_archive, classpath
from tests.harness.kafka.kafka import TEST_JVM_OPTIONS, Kafka

# After a kill, the controller waits for the end of the old session before it accepts the broker
# again. A shorter session would fence a live broker if the computer pauses for a moment.
QUICK_RESTART = {"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "500"}

# For a node that idles during most tests. These settings halve its processor time: there are fewer
# threads that wake every 300 ms, and no controller record every 500 ms.
QUIET = {
    "num.io.threads": "3",
    "num.network.threads": "1",
    "background.threads": "2",
    "metadata.max.idle.interval.ms": "0",
}
# Time for a JVM to write the class archive when it ends. An idle computer needs 2 s.
ARCHIVE_TIMEOUT_S = 60.0


@pytest.fixture(scope="session")
def kafka_jars() -> str:
    """Return the class path of Apache Kafka 4.3.1. Make the class archive, so that nodes and tools
    start quickly."""
    try:
        found = classpath()
    except KafkaUnavailable as reason:
        pytest.skip(f"Apache Kafka cannot be run: {reason}")
    class_archive().make(_start_and_stop)
    return found


def _start_and_stop(options: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kafka = Kafka(Path(folder), jvm_options=(*TEST_JVM_OPTIONS, *options))
        kafka.start()
        kafka.stop(ARCHIVE_TIMEOUT_S)


@pytest.fixture(scope="session")
def kafka(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """One Apache Kafka node for the whole session. Do not stop it in a test."""
    with Kafka(tmp_path_factory.mktemp("kafka"), QUICK | QUIET) as broker:
        yield broker


@pytest.fixture
def fresh_kafka(kafka_jars: str, tmp_path: Path) -> Iterator[Kafka]:
    """An Apache Kafka node for this test alone. The test may stop, kill and inspect it."""
    with Kafka(tmp_path / "kafka", QUICK | QUICK_RESTART) as broker:
        yield broker
