"""A broker that catches up under a throttle, and one that a partition moves to, get records at the
rate of the throttle (KIP-73)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog.testing.wire import Wire
from oncelog_client import Admin, TopicPartition
from oncelog_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.cluster.reading import in_sync, metadata_of
from tests.examples import COMPARES_ALL
from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd
from tests.harness.waiting import wait_until

CALL_S = 30.0
RATE = 1_000_000
RECORD = 50_000
# The rate is measured for this time, in `make nightly` for a minute.
MEASURED_S = 60 if COMPARES_ALL else 4
# The rate is measured between these sizes of the follower's log. The first second of the throttle
# lets more through.
FROM = 2 * RATE
TO = FROM + MEASURED_S * RATE
FOLLOWER = 3
# Longest time between a look at the clock and one at the log.
AT_ONCE_S = 0.01
BROKER, SET, DELETE = 4, 0, 1


@pytest.fixture
def cluster(tmp_path: Path, real_etcd: Etcd, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    settings = {
        "oncelog.etcd.prefix": f"/{request.node.name}/",
        # Small steps, because the test takes only some seconds.
        "replica.fetch.max.bytes": str(RECORD),
        "replica.fetch.wait.max.ms": "50",
    }
    with Cluster(tmp_path, real_etcd, settings=settings) as cluster:
        yield cluster


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_follower_catches_up_at_the_rate(cluster: Cluster, side: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    settings = {f"{side}.replication.throttled.replicas": "*", "min.insync.replicas": "1"}
    topic = NewTopic("t", 1, 3, config=settings)
    admin.create_topics([topic])["t"].result(CALL_S)
    cluster.brokers[FOLLOWER].kill()
    write(cluster, TO + RATE)
    # A leader also counts the bytes of followers in sync. So the throttle begins only after these
    # have fetched the records.
    alter(cluster, f"{side}.replication.throttled.rate", str(RATE))
    cluster.brokers[FOLLOWER].start()

    assert rate_of(cluster, FOLLOWER) == pytest.approx(RATE, rel=0.1)
    alter(cluster, f"{side}.replication.throttled.rate", None)
    wait_until(lambda: in_sync(admin, "t", 1), "the follower is in sync", CALL_S)


async def test_b20_a_partition_moves_at_the_rate_of_the_throttle(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    settings = {"follower.replication.throttled.replicas": "*", "min.insync.replicas": "1"}
    topic = NewTopic("t", 1, replica_assignment=[[1, 2]], config=settings)
    admin.create_topics([topic])["t"].result(CALL_S)
    await asyncio.to_thread(write, cluster, TO + RATE)
    await asyncio.to_thread(alter, cluster, "follower.replication.throttled.rate", str(RATE))
    async with Admin(cluster.address) as own:
        await own.alter_partition_reassignments({TopicPartition("t", 0): (FOLLOWER, 1)})
        found = await asyncio.to_thread(rate_of, cluster, FOLLOWER)
        assert found == pytest.approx(RATE, rel=0.1)
        assert list(await own.list_partition_reassignments()) == [TopicPartition("t", 0)]
        await asyncio.to_thread(alter, cluster, "follower.replication.throttled.rate", None)
        async with asyncio.timeout(CALL_S):
            while await own.list_partition_reassignments():  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    replicas = metadata_of(admin, "t").topics["t"].partitions[0].isrs
    assert sorted(replicas) == [1, FOLLOWER]


def rate_of(cluster: Cluster, broker_id: int) -> float:
    """Return the rate in bytes a second at which the log of a broker grows from FROM to TO."""
    log = cluster.brokers[broker_id].data / "t-0" / f"{0:020}.log"

    def size() -> int:
        return log.stat().st_size if log.exists() else 0

    def passed(bound: int) -> tuple[float, int]:
        wait_until(lambda: size() >= bound, f"{bound} bytes", CALL_S + MEASURED_S)
        while True:
            looked_s, found = time.monotonic(), size()
            if time.monotonic() - looked_s < AT_ONCE_S:  # this process had a processor
                return looked_s, found

    (began_s, began), (ended_s, ended) = passed(FROM), passed(TO)
    return (ended - began) / (ended_s - began_s)


def alter(cluster: Cluster, name: str, value: str | None) -> None:
    """Set a setting of all brokers, or delete it."""
    operation = SET if value is not None else DELETE
    resource = AlterConfigsResource(BROKER, "", [AlterableConfig(name, operation, value)])
    with Wire(cluster.brokers[1].address) as wire:
        (row,) = wire.call(IncrementalAlterConfigsRequest([resource])).responses
    assert row.error_code == 0, row.error_message


def write(cluster: Cluster, size: int) -> None:
    """Write records of `size` bytes in all."""
    running = [broker for broker in cluster.brokers.values() if broker.is_running]
    producer = Producer(
        {
            "bootstrap.servers": ",".join(broker.address for broker in running),
            "acks": "all",
            "enable.idempotence": True,
            "batch.size": RECORD,
        }
    )
    for _ in range(size // RECORD):
        producer.produce("t", b"v" * (RECORD - 100))
    assert producer.flush(CALL_S) == 0
