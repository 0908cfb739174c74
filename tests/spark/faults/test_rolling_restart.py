"""A rolling restart by SIGTERM during a query: each broker moves its leaders and coordinators
before it stops, so the query continues without an error, and writes each row once (scenario B30).

Without these moves a query survives too, but with longer gaps, so the tests check the moves in the
brokers' logs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from oncelog_client.admin import ElectionType
from oncelog_client.sync import Admin
from tests.cluster.reading import CALL_S, all_in_sync
from tests.cluster.steady_clients import OwnIdempotentProducer, SteadyClients
from tests.harness.cluster import Cluster
from tests.harness.waiting import wait_until
from tests.spark.faults.running import audited
from tests.spark.pipeline import Pipeline

ROUNDS = 2
# The number of micro-batches that the progress of a query has. Spark's default is 100.
PROGRESS = "spark.sql.streaming.numRecentProgressUpdates"
MOST_BATCHES = 10_000

_log = logging.getLogger(__name__)


class Batch(NamedTuple):
    """A completed micro-batch. `ended_s`: the time of its end in s."""

    number: int
    rows: int
    ended_s: float


@pytest.fixture(params=["group", "record"])
def pipeline(
    request: pytest.FixtureRequest, mortal_cluster: Cluster, name: str, checkpoint: str
) -> Pipeline:
    return Pipeline(mortal_cluster.address, name, checkpoint, {"sinkProtocol": request.param})


@pytest.fixture
def whole_progress(spark: SparkSession) -> Iterator[None]:
    """The progress of a query has all its micro-batches."""
    spark.conf.set(PROGRESS, MOST_BATCHES)
    yield
    spark.conf.unset(PROGRESS)


@pytest.mark.usefixtures("whole_progress")
def test_b30_no_error_reaches_a_query_and_each_row_is_written_once(
    spark: SparkSession, mortal_cluster: Cluster, pipeline: Pipeline
) -> None:
    """After each restart, the preferred leaders are elected again. `--log-cli-level=info` shows the
    longest gap between the ends of two micro-batches."""
    writer = OwnIdempotentProducer("purchases", mortal_cluster.address, pipeline.purchases)
    with audited(pipeline) as audit:
        query = pipeline.start(spark, available_now=False)
        with SteadyClients(writer):
            wait_for_batches(query)
            restart_in_turn(mortal_cluster, query)
        query.processAllAvailable()
        batches = completed(query)
        assert query.isActive
        query.stop()
        assert query.exception() is None
        assert writer.errors == []
        audit.assert_exactly_once(len(writer.written))
    log_gaps(batches)
    first, last = batches[0].number, batches[-1].number
    assert [batch.number for batch in batches] == [*range(first, last + 1)], "each batch ran once"
    assert sum(batch.rows for batch in batches) == len(writer.written)
    assert failed_tasks(spark, query) == 0, "Spark retried nothing"


def restart_in_turn(cluster: Cluster, query: StreamingQuery) -> None:
    """Stop and start each broker ROUNDS times while the query runs."""
    admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
    with Admin(cluster.address) as own_admin:
        for broker in [*cluster.brokers.values()] * ROUNDS:
            assert broker.stop() == 0
            assert "leaders moved" in broker.said()
            wait_for_batches(query)
            broker.start()
            wait_until(lambda: all_in_sync(admin), "all replicas are in sync", CALL_S)
            elected = own_admin.elect_leaders(ElectionType.PREFERRED)
            assert set(elected.values()) == {None}, "the broker has its leaders back"
            wait_for_batches(query)


def wait_for_batches(query: StreamingQuery) -> None:
    """Wait for the end of two micro-batches: the second one begins after the call."""
    last = last_batch(query)
    wait_until(
        lambda: last_batch(query) >= last + 2 or not query.isActive, "the query continues", CALL_S
    )
    assert query.exception() is None


def last_batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def completed(query: StreamingQuery) -> list[Batch]:
    """Return the micro-batches with rows. While there are none, Spark reports idle triggers."""
    batches = [batch(progress) for progress in query.recentProgress]
    return [batch for batch in batches if batch.rows]


def batch(progress: dict[str, Any]) -> Batch:
    began_s = datetime.fromisoformat(progress["timestamp"]).timestamp()
    ended_s = began_s + progress["durationMs"]["triggerExecution"] / 1000
    return Batch(progress["batchId"], progress["numInputRows"], ended_s)


def log_gaps(batches: list[Batch]) -> None:
    gaps_ms = [1000 * (after.ended_s - before.ended_s) for before, after in pairwise(batches)]
    _log.info(
        "%d micro-batches: longest gap %d ms, median %d ms",
        len(batches),
        max(gaps_ms),
        median(gaps_ms),
    )


def failed_tasks(spark: SparkSession, query: StreamingQuery) -> int:
    """Return the number of failed tasks of a query."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(str(query.runId))]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    assert stages
    return sum(stage.numFailedTasks for stage in stages if stage)
