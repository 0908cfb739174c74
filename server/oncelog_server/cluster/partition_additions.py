"""Addition of partitions to a topic. Checks, codes and messages are those of Kafka's
ReplicationControlManager.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.image import ClusterImage, TopicImage
from oncelog_server.cluster.partition_limits import (
    MAX_PARTITIONS_OF_A_REQUEST,
    TakePermits,
    check_room,
    partition_count,
    too_many_in_a_request,
)
from oncelog_server.cluster.placement import (
    Assignment,
    Placeable,
    check_assignment,
    place,
    start_for,
)
from oncelog_server.cluster.store import Write, Written
from oncelog_server.cluster.topic_names import is_internal
from oncelog_server.cluster.topic_writes import creating_put, partition_puts, topic_last, topic_put
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings


class NewPartitions(msgspec.Struct, frozen=True):
    """Partitions to add. `count` is the new total; `assignments` are for the added partitions."""

    topic: str
    count: int
    assignments: tuple[Assignment, ...] | None = None


def check_additions(image: ClusterImage, topics: Sequence[NewPartitions]) -> None:
    """Raise Refused if all topics of a request together would get too many new partitions. As in
    Kafka, the whole request is refused."""
    known = ((new.count, image.topics.get(new.topic)) for new in topics)
    added = (count - len(topic.partitions) for count, topic in known if topic is not None)
    if sum(max(more, 0) for more in added) > MAX_PARTITIONS_OF_A_REQUEST:
        raise too_many_in_a_request()


def create_partitions(
    image: ClusterImage,
    settings: Settings,
    new: NewPartitions,
    take: TakePermits = None,
    *,
    lease_id: int = 0,
) -> list[Write]:
    """Return the writes that add partitions to a topic. Raises Refused if the topic cannot have
    them. `lease_id` is the lease of the broker.

    Unlike in Kafka, an internal topic is refused, because the number of its partitions decides
    which partition holds a group or a transactional id. Kafka's coordinators use the old number
    until a restart, or fail to load.
    """
    topic = image.topics.get(new.topic)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if is_internal(new.topic):
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"The number of partitions of the internal topic '{new.topic}' cannot be changed.",
        )
    if topic.missing:
        raise Refused(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"The topic {new.topic} is broken: its partitions {list(topic.missing)} have no record "
            "in the metadata.",
        )
    count = len(topic.partitions)
    if new.count == count:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if new.count < count:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {new.topic} currently has {count} partition(s); {new.count} would not be "
            "an increase.",
        )
    check_additions(image, [new])
    added = new.count - count
    check_room(partition_count(image), settings, added)
    assignments = _added_assignments(image, topic, new)
    if take is not None:
        take(new.topic, added)
    put = topic_put(topic, partitions=new.count)
    partitions = partition_puts(image, topic.id_text, count, assignments)
    creating = creating_put(topic.id_text, topic.name, lease_id)
    return topic_last(Written(put.key, topic.revision), put, partitions, creating)


def _added_assignments(
    image: ClusterImage, topic: TopicImage, new: NewPartitions
) -> list[Assignment]:
    """Return the replicas of the partitions that are added to a topic. Raises Refused."""
    count = len(topic.partitions)
    added = new.count - count
    factor = topic.replication_factor
    if new.assignments is None:
        start = start_for(topic.name, topic.id)
        return place(Placeable.of(image), start, count, added, factor)
    if len(new.assignments) != added:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(new.assignments)} assignment(s) were specified.",
        )
    for replicas in new.assignments:
        check_assignment(replicas, image.registered, factor)
    return list(new.assignments)
