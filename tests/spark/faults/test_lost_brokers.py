"""One of three brokers is killed during a query and stays away until the query has ended: the one
that coordinates the transactions of the batch, or one that leads partitions of its rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.coordinator.routing import partition_for
from tests.cluster.reading import all_in_sync
from tests.harness.cluster import QUICK, Cluster
from tests.harness.waiting import wait_until
from tests.spark.fail_points import FailPoints
from tests.spark.faults.conftest import LIMIT
from tests.spark.faults.running import append_purchases, audited, run, to_its_end
from tests.spark.pipeline import Pipeline

WRITING = "task.produce.after"
DECIDING = "commit.decide.before"
SHARDS = int(QUICK["transaction.state.log.num.partitions"])


@pytest.fixture
def pipeline(mortal_cluster: Cluster, name: str, checkpoint: str) -> Pipeline:
    return Pipeline(mortal_cluster.address, name, checkpoint, source_options=LIMIT)


def coordinator(cluster: Cluster, pipeline: Pipeline) -> int:
    """Return the broker that coordinates the group of the sink's transactions."""
    return cluster.leader(TRANSACTION_STATE, partition_for(pipeline.name, SHARDS))


def leader(cluster: Cluster, pipeline: Pipeline) -> int:
    """Return the broker that leads the first partition of invoices."""
    return cluster.leader(pipeline.invoices, 0)


@pytest.mark.parametrize("point", [WRITING, DECIDING])
@pytest.mark.parametrize("lost", [coordinator, leader])
def test_a_query_loses_and_doubles_no_row_over_the_loss_of_a_broker(
    spark: SparkSession,
    mortal_cluster: Cluster,
    pipeline: Pipeline,
    fail_points: FailPoints,
    lost: Callable[[Cluster, Pipeline], int],
    point: str,
) -> None:
    admin = AdminClient({"bootstrap.servers": mortal_cluster.address, "log_level": 0})
    with audited(pipeline) as audit:
        append_purchases(pipeline, 2)
        assert run(pipeline, spark) is None
        append_purchases(pipeline, 12)
        fail_points.pause(point)
        query = pipeline.start(spark)
        fail_points.wait_for(point)
        wait_until(lambda: all_in_sync(admin), "any broker can lead all partitions", 60)
        broker = mortal_cluster.brokers[lost(mortal_cluster, pipeline)]
        broker.kill()
        fail_points.resume(point)
        assert to_its_end(query) is None
        broker.start()
        assert run(pipeline, spark) is None
        audit.assert_exactly_once(14)
