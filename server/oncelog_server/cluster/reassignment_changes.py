"""Requests to move partitions to other brokers, or to cancel such moves, as conditional writes
(KIP-455)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.batches import Batches
from oncelog_server.cluster.image import ClusterImage, PartitionImage, TopicImage
from oncelog_server.cluster.partition_change import (
    Candidates,
    ElectionRules,
    add_change,
    live_members,
    next_record,
    staying_members,
)
from oncelog_server.cluster.placement import check_assignment
from oncelog_server.cluster.reassignment import Reassignment
from oncelog_server.cluster.records import PartitionRecord
from oncelog_server.cluster.store import Write
from oncelog_server.refusal import Refused

# Number of partitions with changes that fit into one transaction of the store. A change has at most
# two conditions.
MAX_REASSIGNED_AT_ONCE: Final = 60


class PartitionTarget(msgspec.Struct, frozen=True):
    """The replicas that a partition shall have. None cancels the reassignment in progress."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


def reassign_partitions(
    image: ClusterImage,
    rules: ElectionRules,
    targets: Sequence[PartitionTarget],
    *,
    may_change_factor: bool = True,
) -> tuple[list[Refused | None], list[Write]]:
    """Return the outcome of each target, and the write of all accepted ones.

    `targets` are at most MAX_REASSIGNED_AT_ONCE. If a partition has several targets, the last one
    counts. Without `may_change_factor`, a target with another number of replicas is refused
    (KIP-860). A reassignment that needs no further replica in the ISR is completed by the same
    write. The others are completed by the controller (`next_record`).
    """
    outcomes: list[Refused | None] = []
    changed: dict[tuple[str, int], tuple[TopicImage, PartitionImage, PartitionRecord | None]] = {}
    for target in targets:
        try:
            topic, partition = _find(image, target)
            wanted = _wanted(image, rules, topic, partition, target, may_change_factor)
            record = next_record(image, rules, topic, partition, wanted)
            changed[target.topic, target.partition] = topic, partition, record
            outcomes.append(None)
        except Refused as refused:
            outcomes.append(refused)
    batches: Batches[PartitionImage] = Batches(())
    for topic, partition, record in changed.values():
        if record is not None:
            add_change(batches, image, topic, partition, record)
    return outcomes, batches.writes()


def _find(image: ClusterImage, target: PartitionTarget) -> tuple[TopicImage, PartitionImage]:
    topic = image.topics.get(target.topic)
    if topic is None:
        raise Refused(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {target.topic}."
        )
    partition = image.partition(target.topic, target.partition)
    if partition is None or not partition.replicas:
        raise Refused(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {target.topic}:{target.partition}.",
        )
    return topic, partition


def _wanted(
    image: ClusterImage,
    rules: ElectionRules,
    topic: TopicImage,
    partition: PartitionImage,
    target: PartitionTarget,
    may_change_factor: bool,
) -> Reassignment:
    """Return the reassignment that the target requires. Raises Refused if it is not possible."""
    present = Reassignment.of(partition)
    if target.replicas is None:
        if not present.is_in_progress:
            raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        cancelled = present.cancelled()
        _check_cancelled(image, rules, topic, partition, target, cancelled)
        return cancelled
    check_assignment(target.replicas, image.registered, None)
    count = len(present.target)
    if not may_change_factor and len(target.replicas) != count:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {count} to {len(target.replicas)}",
        )
    return present.towards(target.replicas)


def _check_cancelled(
    image: ClusterImage,
    rules: ElectionRules,
    topic: TopicImage,
    partition: PartitionImage,
    target: PartitionTarget,
    cancelled: Reassignment,
) -> None:
    """Raise Refused if a cancellation would remove the last member of the ISR, or members that the
    min ISR needs: committed records would be on fewer replicas than the min ISR."""
    if rules.allows_unclean(topic):
        return
    candidates = Candidates(image, partition)
    # A draining leader that no other replica can replace stays the leader.
    isr = live_members(candidates, partition) or staying_members(candidates, partition)
    staying = isr.keys() & set(cancelled.replicas)
    place = f"{target.topic}:{target.partition}"
    if not staying:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {place} because it would require an "
            "unclean leader election.",
        )
    needed = min(rules.min_isr(topic, partition), len(cancelled.replicas))
    if len(staying) < min(needed, len(isr)):
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {place} because only {len(staying)} of the "
            f"replicas that stay are in sync, and min.insync.replicas is {needed}.",
        )
