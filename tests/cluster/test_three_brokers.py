"""Three brokers on one etcd are one cluster for real clients."""

from __future__ import annotations

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.reading import in_sync, metadata_of, values
from tests.harness.cluster import Cluster
from tests.harness.waiting import wait_until

CALL_S = 30.0


def test_three_brokers_that_start_at_once_are_one_cluster(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    described = admin.describe_cluster().result(CALL_S)
    assert sorted(node.id for node in described.nodes) == [1, 2, 3]
    assert described.controller.id in (1, 2, 3)


def test_records_are_acknowledged_by_all_replicas_and_read(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    admin.create_topics([NewTopic("t", 3, 3)])["t"].result(CALL_S)
    wrote = write(cluster, "t", 300)
    assert values(cluster.address, "t", 3) == wrote


def test_acknowledged_records_survive_the_loss_of_any_broker(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    admin.create_topics([NewTopic("t", 3, 3)])["t"].result(CALL_S)
    wrote = write(cluster, "t", 300)
    cluster.brokers[2].kill()

    def has_leaders() -> bool:
        topic = metadata_of(admin, "t").topics["t"]
        rows = topic.partitions.values()
        return all(row.leader not in (-1, 2) and 2 not in row.isrs for row in rows)

    wait_until(has_leaders, "all partitions have leaders", CALL_S)
    wrote = sorted(wrote + write(cluster, "t", 300, first=300))
    assert values(cluster.address, "t", 3) == wrote
    cluster.brokers[2].start()

    wait_until(lambda: in_sync(admin, "t", 3), "the broker is in sync again", CALL_S)


def write(cluster: Cluster, topic: str, count: int, first: int = 0) -> list[str]:
    """Write records with acks=all. Return them when all are acknowledged."""
    failures: list[str] = []
    producer = Producer(
        {"bootstrap.servers": cluster.address, "acks": "all", "enable.idempotence": True}
    )
    values = [f"{number:06}" for number in range(first, first + count)]

    def delivered(error: object, record: object) -> None:
        if error is not None:
            failures.append(str(error))

    for value in values:
        producer.produce(topic, value, on_delivery=delivered)
    assert producer.flush(CALL_S) == 0
    assert not failures
    return values
