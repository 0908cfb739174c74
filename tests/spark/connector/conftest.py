"""Spark's official Kafka connector, in a Spark process of its own. Each test runs against oncelog
and against Apache Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from oncelog.testing.broker import QUICK
from tests.harness.broker import Oncelog
from tests.harness.kafka.fixtures import QUICK_RESTART
from tests.harness.kafka.jars import KafkaUnavailable, classpath
from tests.harness.kafka.kafka import Kafka
from tests.spark.connector import official
from tests.spark.connector.log import Log
from tests.spark.connector.process import SparkProcess

Broker = Oncelog | Kafka

# Some records have timestamps from 2023, so that the default retention would delete them.
KEPT = {"log.retention.ms": "-1"}


@pytest.fixture(scope="session")
def connector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkProcess]:
    """PySpark 4.0.0 with the official connector, one for the whole session."""
    folder = tmp_path_factory.mktemp("connector")
    try:
        python, jars = official.python(), official.jars()
    except official.ConnectorUnavailable as reason:
        pytest.skip(f"the official connector cannot be run: {reason}")
    module = "tests.spark.connector.program"
    with SparkProcess(python, module, [jars, str(folder)], folder / "spark.log") as process:
        yield process


@pytest.fixture(scope="session", params=["oncelog", "kafka"])
def either(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """oncelog or Apache Kafka. A test expects the same from both. It may kill and restart the
    broker."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "oncelog":
        with Oncelog(folder, KEPT) as oncelog:
            yield oncelog
        return
    try:
        classpath()
    except KafkaUnavailable as reason:
        pytest.skip(f"Apache Kafka cannot be run: {reason}")
    with Kafka(folder, QUICK | QUICK_RESTART | KEPT) as kafka:
        yield kafka


@pytest.fixture
def log(either: Broker) -> Log:
    """The topics of the broker."""
    return Log(either.address)


@pytest.fixture
def topic() -> str:
    """A new name for a topic."""
    return f"t-{uuid.uuid4().hex[:12]}"
