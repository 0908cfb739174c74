"""Spark and brokers for every test of the data source.

Each test process starts Spark once, at first use. With `--dist loadfile`, two workers of xdist run
all tests that need it (`tests/distribution.py`). The session stays usable after a failed query and
after a killed Python worker. A test that kills a driver starts its own driver (`driver.py`).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from oncelog.testing.broker import QUICK
from tests.harness.broker import Oncelog, OncelogByAddress
from tests.harness.certificates import Certificates
from tests.harness.cluster import Cluster
from tests.harness.kafka.kafka import Kafka
from tests.spark.fail_points import FailPoints
from tests.spark.guarded import GuardedOncelog
from tests.spark.session import NoJava, Spark, java, make_class_archive
from tests.spark.topics import Topics

LOG_LINES = 60
BROKERS: Final = os.environ.get("ONCELOG_BROKERS", "1")


@pytest.fixture(scope="session")
def has_java() -> None:
    """Skip the test without Java, or fail if CI=true. With Java, make the class archive, so that
    every later Spark starts faster."""
    try:
        java()
    except NoJava as reason:
        pytest.skip(f"Spark cannot be run: {reason}")
    make_class_archive()


@pytest.fixture(scope="session")
def spark_driver(has_java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """The driver in this process, with its log and its fail points."""
    driver = Spark(tmp_path_factory.mktemp("spark"))
    driver.start()
    try:
        yield driver
    finally:
        driver.stop()


@pytest.fixture
def spark(spark_driver: Spark) -> Iterator[SparkSession]:
    """The session. Queries that a test leaves running are stopped."""
    session = spark_driver.session
    yield session
    for query in session.streams.active:
        query.stop()


@pytest.fixture
def fail_points(spark: SparkSession, spark_driver: Spark) -> Iterator[FailPoints]:
    """Fail points of the session's Python workers. At the end of the test, all fail points are
    unset and paused workers are resumed."""
    yield spark_driver.fail_points
    spark_driver.fail_points.clear()


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Oncelog | Cluster:
    """One oncelog for the whole session, or the three of a cluster if ONCELOG_BROKERS is 3. Do not
    stop them in a test."""
    name = "running_cluster" if BROKERS == "3" else "lone_broker"
    found: Oncelog | Cluster = request.getfixturevalue(name)
    return found


@pytest.fixture(scope="session")
def lone_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    with OncelogByAddress(tmp_path_factory.mktemp("oncelog"), QUICK) as running:
        yield running


@pytest.fixture
def fresh_broker(tmp_path: Path) -> Iterator[Oncelog]:
    """An oncelog for this test alone. The test may stop and kill it."""
    with OncelogByAddress(tmp_path / "oncelog", QUICK) as running:
        yield running


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedOncelog]:
    """One oncelog with TLS, users and access rules, for the whole session."""
    folder = tmp_path_factory.mktemp("guarded")
    with GuardedOncelog(folder / "oncelog", Certificates(folder)) as running:
        yield running


@pytest.fixture
def topics(broker: Oncelog | Cluster) -> Topics:
    """The topics of `broker`."""
    return Topics(broker.address)


@pytest.fixture
def kafka_topics(kafka: Kafka) -> Topics:
    """The topics of Apache Kafka."""
    return Topics(kafka.address)


@pytest.fixture
def name() -> str:
    """A new name for a topic, a sink or a query."""
    return f"s-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A new checkpoint location."""
    return str(tmp_path / "checkpoint")


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show Spark's last output for a failed test."""
    report = yield
    driver = getattr(item, "funcargs", {}).get("spark_driver")
    if report.failed and isinstance(driver, Spark):
        lines = driver.log.read_text(errors="replace").splitlines()
        shown = [line for line in lines if not line.startswith("\tat ")]
        report.sections.append(("Spark's log", "\n".join(shown[-LOG_LINES:])))
    return report
