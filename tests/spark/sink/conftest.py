"""A query that commits by group: one EndTxn ends the transactions of all tasks. Each call of the
query runs in its own process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.broker import Oncelog
from tests.spark.fail_points import FailPoints
from tests.spark.record_commit.query import Query
from tests.spark.topics import Topics


@pytest.fixture
def points(tmp_path: Path) -> Iterator[FailPoints]:
    """Fail points of forked processes. At the end of the test, paused processes continue."""
    found = FailPoints(tmp_path / "fail-points")
    yield found
    found.clear()


@pytest.fixture
def query(broker: Oncelog, topics: Topics, points: FailPoints, name: str) -> Query:
    """A query with a new sink and a new topic."""
    topics.create(name)
    return Query(broker.address, name, name, points).having(sinkProtocol="group")
