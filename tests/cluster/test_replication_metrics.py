"""The bytes of replication are counted on both sides, those of a reassignment also separately."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog_client import NewTopic, TopicPartition
from oncelog_client.sync import Admin, Producer
from oncelog_server.metrics import table as metrics
from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd
from tests.harness.scraping import PORT, scrape
from tests.harness.waiting import wait_until

CALL_S = 30.0
SIZE = 10_000
IN, OUT = metrics.REPLICATED_BYTES_IN.name, metrics.REPLICATED_BYTES_OUT.name
MOVED_IN, MOVED_OUT = metrics.REASSIGNED_BYTES_IN.name, metrics.REASSIGNED_BYTES_OUT.name


@pytest.fixture
def cluster(tmp_path: Path, real_etcd: Etcd) -> Iterator[Cluster]:
    settings = {"oncelog.etcd.prefix": "/traffic/", **PORT}
    with Cluster(tmp_path, real_etcd, settings=settings) as cluster:
        yield cluster


def test_the_copy_of_a_moved_partition_counts_as_that_of_a_reassignment(cluster: Cluster) -> None:
    """Broker 1 leads, broker 2 follows, and the partition moves to broker 3."""

    def value(broker: int, name: str) -> float:
        return scrape(cluster.brokers[broker]).value(name)

    with Admin(cluster.address) as admin:
        configs = {"min.insync.replicas": "1"}
        admin.create_topics([NewTopic("t", assignments={0: [1, 2]}, configs=configs)])
        with Producer(cluster.address, acks="all") as producer:
            producer.send("t", b"x" * SIZE).result(CALL_S)
        # On a busy computer, the follower may have left the ISR before the response.
        wait_until(lambda: value(2, IN) >= SIZE, "the bytes of the follower", CALL_S)
        wait_until(lambda: value(1, OUT) >= SIZE, "the bytes of the leader", CALL_S)
        for broker in (1, 2, 3):
            assert (value(broker, MOVED_IN), value(broker, MOVED_OUT)) == (0, 0)
        assert scrape(cluster.brokers[1]).value(metrics.BYTES_OUT.name, topic="t") == 0, (
            "followers do not count as consumers"
        )
        before = value(2, IN)
        admin.alter_partition_reassignments({TopicPartition("t", 0): [1, 3]})
        wait_until(lambda: not admin.list_partition_reassignments(), "the move", CALL_S)
        wait_until(lambda: value(3, IN) >= SIZE, "the bytes of the new replica", CALL_S)
        assert value(3, MOVED_IN) == value(3, IN)
        assert value(1, MOVED_OUT) == value(3, MOVED_IN)
        assert (value(2, MOVED_IN), value(2, IN)) == (0, before)
