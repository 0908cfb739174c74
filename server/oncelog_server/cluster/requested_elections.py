"""Elections that an operator requests (ElectLeaders, KIP-183 and KIP-460), with the errors of
Kafka's ReplicationControlManager.

Every broker may make them: each write compares the revision of the partition, and that the new
leader is still registered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import Final

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.batches import Batches
from oncelog_server.cluster.controller import preferred_record
from oncelog_server.cluster.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from oncelog_server.cluster.partition_change import ElectionRules, add_change, next_record
from oncelog_server.cluster.records import PartitionRecord
from oncelog_server.cluster.store import Write
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition


class ElectionType(IntEnum):
    """PREFERRED: the first replica. UNCLEAN: any replica, for a partition without a leader."""

    PREFERRED = 0
    UNCLEAN = 1


# The messages are those of Kafka's Errors.
_NOT_NEEDED: Final = Refused(
    ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
)
_NOT_ELECTED: Final = {
    ElectionType.PREFERRED: Refused(
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
    ),
    ElectionType.UNCLEAN: Refused(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}
# None: the leader is elected.
Outcome = Refused | None


class Elections(msgspec.Struct, frozen=True):
    """The writes of the elections that are possible, and the outcome for each partition. `unclean`
    are the partitions with a new leader that was neither in the ISR nor in the ELR."""

    writes: list[Write]
    outcomes: Mapping[TopicPartition, Outcome]
    unclean: tuple[TopicPartition, ...] = ()


def requested_elections(
    image: ClusterImage,
    rules: ElectionRules,
    kind: ElectionType,
    wanted: Sequence[TopicPartition],
    *,
    unserved: Collection[TopicPartition] = (),
) -> Elections:
    """Return the elections of these partitions. `unserved` are partitions with a leader that cannot
    use its log: no other replica has taken over, so no election helps."""
    rules = msgspec.structs.replace(rules, is_forced=kind is ElectionType.UNCLEAN)
    batches: Batches[PartitionImage] = Batches(())
    outcomes: dict[TopicPartition, Outcome] = {}
    unclean: list[TopicPartition] = []
    for name in wanted:
        topic = image.topics.get(name.topic)
        partition = image.partition(*name)
        if topic is None or partition is None:
            missing = f"topic as {name.topic}" if topic is None else f"partition as {name}"
            message = f"No such {missing}"
            outcomes[name] = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        elif name in unserved:
            outcomes[name] = _NOT_ELECTED[kind]
        elif _has_leader(partition, kind):
            outcomes[name] = _NOT_NEEDED
        elif (record := _elected(image, rules, kind, topic, partition)) is None:
            outcomes[name] = _NOT_ELECTED[kind]
        else:
            add_change(batches, image, topic, partition, record)
            outcomes[name] = None
            if record.leader not in (*partition.isr, *partition.elr):
                unclean.append(name)
    return Elections(batches.writes(), outcomes, tuple(unclean))


def _has_leader(partition: PartitionImage, kind: ElectionType) -> bool:
    if kind is ElectionType.UNCLEAN:
        return partition.leader != NO_LEADER
    return partition.has_preferred_leader


def _elected(
    image: ClusterImage,
    rules: ElectionRules,
    kind: ElectionType,
    topic: TopicImage,
    partition: PartitionImage,
) -> PartitionRecord | None:
    """Return the record with the new leader, None if no replica can lead."""
    if kind is ElectionType.PREFERRED:
        return preferred_record(image, partition)
    record = next_record(image, rules, topic, partition)
    return None if record is None or record.leader == NO_LEADER else record
