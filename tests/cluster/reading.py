"""The parts of a cluster that tests read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ClusterMetadata, OffsetSpec

from tests.harness.waiting import wait_until

CALL_S = 30.0
REPLICAS = 3
# More than a busy broker needs for a response.
_LISTING_S = 5.0


def metadata_of(admin: AdminClient, topic: str | None = None) -> ClusterMetadata:
    """Return the metadata of a live broker, of one topic or of all.

    librdkafka holds its request for the broker that it has chosen. If that broker has just been
    killed, the request fails at its timeout only, so this function soon sends another.
    """
    found: list[ClusterMetadata] = []

    def has_answered() -> bool:
        try:
            found.append(
                admin.list_topics(timeout=_LISTING_S)
                if topic is None
                else admin.list_topics(topic, timeout=_LISTING_S)
            )
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
                raise
        return bool(found)

    wait_until(has_answered, "a live broker returns the metadata", CALL_S)
    return found[0]


def in_sync(admin: AdminClient, topic: str, partitions: int) -> bool:
    """Return True if all replicas of all partitions are in sync."""
    rows = metadata_of(admin, topic).topics[topic].partitions.values()
    return len(rows) == partitions and all(len(row.isrs) == REPLICAS for row in rows)


def all_in_sync(admin: AdminClient) -> bool:
    """Return True if all replicas of all topics are in sync."""
    topics = metadata_of(admin).topics.values()
    rows = [row for topic in topics for row in topic.partitions.values()]
    return all(len(row.isrs) == REPLICAS for row in rows)


def ends(
    admin: AdminClient, topic: str, partitions: int, isolation: IsolationLevel
) -> dict[int, int]:
    """Return the high watermarks of a topic, or its last stable offsets, by partition. Raises
    KafkaException, also for a new leader that does not know its high watermark yet."""
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    answers = admin.list_offsets(wanted, isolation_level=isolation, request_timeout=CALL_S)
    return {place.partition: answer.result().offset for place, answer in answers.items()}


def is_decided(admin: AdminClient, topic: str, partitions: int) -> bool:
    """Return True if no transaction is open in a topic."""
    try:
        written = ends(admin, topic, partitions, IsolationLevel.READ_UNCOMMITTED)
        stable = ends(admin, topic, partitions, IsolationLevel.READ_COMMITTED)
    except KafkaException:
        return False
    return all(stable[number] >= end for number, end in written.items())


def values(
    address: str, topic: str, partitions: int, login: Mapping[str, Any] | None = None
) -> list[str]:
    """Return the committed records of a topic, sorted, once no transaction is open in it: a commit
    gets its response before the leaders on other brokers have its markers. `login`: the settings of
    librdkafka's security."""
    admin = AdminClient({**(login or {}), "bootstrap.servers": address, "log_level": 0})
    wait_until(lambda: is_decided(admin, topic, partitions), f"all of {topic} is decided")
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
    # A partition may get to its end again, after a marker.
    at_end: set[int] = set()
    while len(at_end) < partitions:
        record = consumer.poll(CALL_S)
        assert record is not None, "the end of the topic is not reached"
        if (error := record.error()) is None:
            found.append(record.value().decode())
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            at_end.add(record.partition())
    consumer.close()
    return sorted(found)
