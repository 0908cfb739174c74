"""The brokers oncelog and Apache Kafka, and a query on each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.broker import Oncelog
from tests.harness.kafka.kafka import Kafka
from tests.spark.fail_points import FailPoints
from tests.spark.record_commit.query import Query, expected
from tests.spark.topics import Topics

DEADLINE_S = 30.0


@pytest.fixture(params=["oncelog", "kafka"])
def target(request: pytest.FixtureRequest) -> str:
    """The address of oncelog, then of Apache Kafka."""
    if request.param == "kafka":
        kafka: Kafka = request.getfixturevalue("kafka")
        return kafka.address
    broker: Oncelog = request.getfixturevalue("broker")
    return broker.address


@pytest.fixture
def points(tmp_path: Path) -> Iterator[FailPoints]:
    """Fail points of forked processes. At the end of the test, paused processes continue."""
    found = FailPoints(tmp_path / "fail-points")
    yield found
    found.clear()


@pytest.fixture
def query(target: str, points: FailPoints, name: str) -> Query:
    """A query with a new sink and a new topic."""
    Topics(target).create(name)
    return Query(target, name, name, points)


@pytest.fixture
def visible(query: Query) -> Callable[..., None]:
    """A function that checks that exactly the rows of the given batches become visible."""
    return lambda *batches: check_visible(query, *batches)


def check_visible(query: Query, *batches: int) -> None:
    """Check that exactly the rows of these batches become visible. Wait for missing rows, because
    Kafka responds to a commit before all markers are written. Any other row and any duplicate is an
    error at once."""
    wanted = expected(*batches)
    deadline = time.monotonic() + DEADLINE_S
    while (found := sorted(row or b"" for row in Topics(query.bootstrap).values(query.topic))) != (
        wanted
    ):
        assert len(set(found)) == len(found), "duplicates"
        assert set(found) <= set(wanted), "rows without a decision"
        assert time.monotonic() < deadline, f"lost: {set(wanted) - set(found)}"
        time.sleep(0.02)
