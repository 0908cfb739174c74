"""Elections of partition leaders, computed from an image as conditional writes.

The rules are those of Kafka's PartitionChangeBuilder, without reassignment. Every write also
compares the controller's own key, so that a replaced controller cannot change anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from oncelog_server.cluster import records
from oncelog_server.cluster.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from oncelog_server.cluster.records import PartitionRecord
from oncelog_server.cluster.store import Compare, Created, Put, Write, Written

# Maximum number of partitions that one transaction of the store changes. Their conditions and the
# condition on the controller's key are fewer than MAX_OPERATIONS.
BATCH: Final = 100


def elect_leaders(
    image: ClusterImage, alive: Collection[int], restarted: Collection[int]
) -> list[Write]:
    """Return the writes that give a new leader to every partition that needs one.

    A partition needs one if its leader is not in `alive` or is in `restarted`. A restarted broker
    may lead again, with the next leader epoch, as after Kafka's fencing: it may have lost the end
    of its log, and clients detect that by the epoch (KIP-320). A partition without a leader gets
    one when a replica in its ISR is alive, or any replica if the topic's own
    `unclean.leader.election.enable` is true. Until then, its leader is NO_LEADER.
    """
    changes = [
        (topic, partition, elected)
        for topic in image.topics.values()
        for partition in topic.partitions
        if (elected := _elected(topic, partition, alive, restarted)) is not None
    ]
    fence = Created(records.CONTROLLER, image.controller_epoch)
    writes = []
    for start in range(0, len(changes), BATCH):
        batch = changes[start : start + BATCH]
        compare: list[Compare] = [fence]
        puts = []
        for topic, partition, record in batch:
            key = records.partition_key(topic.id_text, partition.partition)
            compare.append(Written(key, partition.partition_epoch))
            puts.append(Put(key, records.encode(record)))
        writes.append(Write(tuple(compare), tuple(puts)))
    return writes


def _elected(
    topic: TopicImage,
    partition: PartitionImage,
    alive: Collection[int],
    restarted: Collection[int],
) -> PartitionRecord | None:
    """Return the partition's record with its new leader, None if nothing changes."""
    leader = partition.leader
    if leader in alive and leader not in restarted:
        return None
    isr = partition.isr
    new_leader = next(_candidates(partition, alive), NO_LEADER)
    if new_leader == NO_LEADER and topic.settings.get("unclean.leader.election.enable") == "true":
        new_leader = next(
            (replica for replica in partition.replicas if replica in alive), NO_LEADER
        )
        if new_leader != NO_LEADER:
            isr = (new_leader,)
    if new_leader == leader == NO_LEADER:
        return None
    return PartitionRecord(
        partition.replicas,
        isr,
        new_leader,
        partition.leader_epoch + 1,
        partition.adding,
        partition.removing,
    )


def _candidates(partition: PartitionImage, alive: Collection[int]) -> Iterator[int]:
    """Return the live replicas in the ISR, the preferred leader first."""
    return (
        replica for replica in partition.replicas if replica in partition.isr and replica in alive
    )
