"""Deletion of topics, decided on a metadata image and returned as conditional writes.

The error codes are those of Kafka's ReplicationControlManager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage, TopicImage
from oncelog_server.cluster.partition_limits import TakePermits
from oncelog_server.cluster.records import DeletionRecord
from oncelog_server.cluster.store import MAX_OPERATIONS, Delete, Put, Write, Written
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings

# Maximum number of topics that one transaction of the store deletes. Each topic takes two
# operations.
MAX_DELETED_AT_ONCE: Final = MAX_OPERATIONS // 2


def delete_topics(
    image: ClusterImage,
    settings: Settings,
    names: Sequence[str],
    take: TakePermits = None,
    ids: Mapping[str, bytes] = MappingProxyType({}),
) -> tuple[list[Write], dict[str, Refused]]:
    """Return the writes that delete the topics `names`, and the refusals by name.

    `names` has at most MAX_DELETED_AT_ONCE elements. A topic with another id than in `ids` is
    refused as unknown: since the request was checked, it was deleted and created again.

    The first write deletes the topics' records, and with them the partitions, because a partition
    without a topic does not exist. The first write also writes a DeletionRecord for each topic,
    which is kept until the topic's folders are deleted. Later writes delete the partitions'
    records.
    """
    refused: dict[str, Refused] = {}
    conditions: dict[str, Written] = {}
    remembered: list[Put] = []
    partitions: list[str] = []
    for name in names:
        topic = image.topics.get(name)
        if not settings.delete_topic_enable:
            refused[name] = Refused(ErrorCode.TOPIC_DELETION_DISABLED)
        elif topic is None or ids.get(name, topic.id) != topic.id:
            refused[name] = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            if take is not None:
                try:
                    take(name, len(topic.partitions))
                except Refused as exceeded:
                    refused[name] = exceeded
                    continue
            key = records.topic_key(name)
            conditions[key] = Written(key, topic.revision)
            remembered.append(_remembered(topic))
            partitions += [
                records.partition_key(topic.id_text, partition.partition)
                for partition in topic.partitions
            ]
    if not conditions:
        return [], refused
    deletes = tuple(Delete(key) for key in conditions)
    first = Write(tuple(conditions.values()), (*deletes, *remembered))
    return [first, *deletions(partitions)], refused


def removal(topic: TopicImage) -> list[Write]:
    """Return the writes that delete a topic that was never in use, also without
    `delete.topic.enable`."""
    key = records.topic_key(topic.name)
    first = Write((Written(key, topic.revision),), (Delete(key), _remembered(topic)))
    keys = [
        records.partition_key(topic.id_text, partition.partition) for partition in topic.partitions
    ]
    return [first, *deletions(keys)]


def _remembered(topic: TopicImage) -> Put:
    """Return the write that records the deletion of a topic."""
    record = DeletionRecord(topic.name, len(topic.partitions))
    return Put(records.deletion_key(topic.id_text), records.encode(record))


def deletions(keys: Sequence[str]) -> list[Write]:
    """Return writes that delete `keys` without a condition, because no other request writes these
    keys."""
    return [
        Write((), tuple(Delete(key) for key in keys[start : start + MAX_OPERATIONS]))
        for start in range(0, len(keys), MAX_OPERATIONS)
    ]
