"""The writes of the records of topics and partitions, in transactions of limited size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage, TopicImage
from oncelog_server.cluster.placement import Assignment
from oncelog_server.cluster.records import PartitionRecord, TopicRecord
from oncelog_server.cluster.replica_directories import first_directories
from oncelog_server.cluster.store import (
    MAX_OPERATIONS,
    Created,
    Delete,
    Put,
    Write,
    WriteOperation,
    Written,
)
from oncelog_server.cluster.write_sequence import FIRST_WRITE
from oncelog_server.refusal import Refused


def topic_put(
    topic: TopicImage, *, partitions: int | None = None, settings: Mapping[str, str] | None = None
) -> Put:
    """Return the write of the topic's record with another partition count or other settings."""
    record = TopicRecord(
        topic.id_text,
        len(topic.partitions) if partitions is None else partitions,
        dict(topic.settings if settings is None else settings),
    )
    return Put(records.topic_key(topic.name), records.encode(record))


def partition_puts(
    image: ClusterImage, id_text: str, first: int, assignments: Sequence[Assignment]
) -> list[Put]:
    """Return the writes of new partitions. The live replicas of each are its ISR, and the first of
    them leads. Raises Refused if no replica of a partition is alive.
    """
    # A topic has up to 10,000 partitions but few different assignments.
    encoded: dict[Assignment, bytes] = {}
    puts = []
    for number, replicas in enumerate(assignments, first):
        value = encoded.get(replicas)
        if value is None:
            alive = tuple(
                broker
                for broker in replicas
                if broker in image.brokers and broker not in image.draining
            )
            if not alive:
                raise Refused(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    "All brokers specified in the manual partition assignment for partition "
                    f"{number} are fenced or in controlled shutdown.",
                )
            epochs = tuple(image.brokers[broker].epoch for broker in alive)
            record = PartitionRecord(
                replicas,
                alive,
                alive[0],
                0,
                isr_epochs=epochs,
                directories=first_directories(replicas, alive, image.brokers),
            )
            value = encoded[replicas] = records.encode(record)
        puts.append(Put(records.partition_key(id_text, number), value))
    return puts


def topic_last(
    condition: Created | Written, topic: Put, partitions: Sequence[Put], creating: Put
) -> list[Write]:
    """Return the writes in as few transactions as possible, the topic's record in the last.

    The topic's record makes the partitions visible. If several transactions are needed, the first
    one writes the key `creating`, so that the controller does not take the partitions for orphans.
    The last one deletes this key, and fails if it does not exist any more.
    """
    if len(partitions) < MAX_OPERATIONS:
        return [Write((condition,), (topic, *partitions))]
    # The first transaction also writes `creating`, the last one writes the topic and deletes
    # `creating`.
    first, last = MAX_OPERATIONS - 1, MAX_OPERATIONS - 2
    rest = max(first, len(partitions) - last)
    writes = [Write((condition,), (creating, *partitions[:first]))]
    for start in range(first, rest, MAX_OPERATIONS):
        end = min(start + MAX_OPERATIONS, rest)
        writes.append(Write((condition,), tuple(partitions[start:end])))
    still_there = Written(creating.key, FIRST_WRITE)
    operations: tuple[WriteOperation, ...] = (topic, *partitions[rest:], Delete(creating.key))
    return [*writes, Write((condition, still_there), operations)]


def creating_put(topic_id: str, name: str, lease_id: int) -> Put:
    """Return the write of the key that protects the partitions of a creation."""
    value = records.encode(records.CreatingRecord(name))
    return Put(records.creating_key(topic_id), value, lease_id)
