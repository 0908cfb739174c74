"""The parts of a cluster that tests read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

CALL_S = 30.0
REPLICAS = 3


def in_sync(admin: AdminClient, topic: str, partitions: int) -> bool:
    """Return True if all replicas of all partitions are in sync."""
    rows = admin.list_topics(topic, timeout=CALL_S).topics[topic].partitions.values()
    return len(rows) == partitions and all(len(row.isrs) == REPLICAS for row in rows)


def all_in_sync(admin: AdminClient) -> bool:
    """Return True if all replicas of all topics are in sync."""
    topics = admin.list_topics(timeout=CALL_S).topics.values()
    rows = [row for topic in topics for row in topic.partitions.values()]
    return all(len(row.isrs) == REPLICAS for row in rows)


def values(
    address: str, topic: str, partitions: int, login: Mapping[str, Any] | None = None
) -> list[str]:
    """Return the committed records of a topic, sorted. `login`: the settings of librdkafka's
    security."""
    consumer = Consumer(
        {
            **(login or {}),
            "bootstrap.servers": address,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[str] = []
    ends = 0
    while ends < partitions:
        record = consumer.poll(CALL_S)
        assert record is not None, "the end of the topic is not reached"
        if record.error():
            ends += 1
        else:
            found.append(record.value().decode())
    consumer.close()
    return sorted(found)
