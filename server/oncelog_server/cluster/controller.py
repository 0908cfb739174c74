"""The decisions of the controller, computed from an image as conditional writes: leaders, ISR and
ELR after a change of the brokers, preferred leaders, partition records without a topic.

Every write compares the controller's own key, so that a replaced controller cannot change anything,
and the revision of each record that it changes. The image alone decides, so a new controller
decides as the old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.batches import Batches
from oncelog_server.cluster.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from oncelog_server.cluster.partition_change import (
    Candidates,
    ElectionRules,
    add_change,
    is_settled,
    members_of,
    next_record,
)
from oncelog_server.cluster.records import PartitionRecord
from oncelog_server.cluster.store import Created, Delete, Put, Write, Written

NO_LIMIT: Final = -1


def elect_leaders(
    image: ClusterImage,
    rules: ElectionRules,
    names: Iterable[str] | None = None,
    *,
    at_most: int = NO_LIMIT,
) -> list[Write]:
    """Return the writes that adapt leader, ISR and ELR of every partition to the brokers of the
    image, and complete reassignments. `names` limits the search to these topics, `at_most` the
    number of changed partitions. `next_record` has the rules."""
    epochs = {
        broker.id: broker.epoch
        for broker in image.brokers.values()
        if broker.id not in image.draining
    }
    batches = _batches(image)
    for topic, partition in _partitions(image, names):
        # Nearly all partitions need no change.
        if is_settled(partition, epochs, image.failed):
            continue
        record = next_record(image, rules, topic, partition)
        if record is not None:
            add_change(batches, image, topic, partition, record)
            at_most -= 1
            if at_most == 0:
                break
    return batches.writes()


def elect_preferred_leaders(
    image: ClusterImage,
    names: Iterable[str] | None = None,
    *,
    at_most: int = NO_LIMIT,
) -> list[Write]:
    """Return the writes that make the first replica of each partition its leader, if this replica
    is in the ISR and can lead. `names` limits the search to these topics, `at_most` the number of
    elections (KIP-460)."""
    batches = _batches(image)
    for topic, partition in _partitions(image, names):
        record = preferred_record(image, partition)
        if record is not None:
            add_change(batches, image, topic, partition, record)
            at_most -= 1
            if at_most == 0:
                break
    return batches.writes()


def remove_orphans(image: ClusterImage) -> list[Write]:
    """Return the writes that delete the partition records without a topic.

    The records of a topic that is being created stay: its last transaction would otherwise make a
    topic without partitions. Each delete has two conditions: the record is unchanged, and no
    creation of this topic has begun.
    """
    batches = _batches(image)
    for orphan in image.orphans():
        if orphan.topic_id in image.creating:
            continue
        id_text = uuid_to_string(orphan.topic_id)
        key = records.partition_key(id_text, orphan.partition)
        compare = (
            Written(key, orphan.partition_epoch),
            Created(records.creating_key(id_text), 0),
        )
        batches.add(orphan, compare, Delete(key))
    return batches.writes()


def become_controller(image: ClusterImage, broker_id: int, lease_id: int) -> Write | None:
    """Return the write that makes a broker the controller, None if there is a controller. The key
    has the broker's lease."""
    if image.controller_id != -1:
        return None
    record = records.encode(records.ControllerRecord(broker_id))
    return Write((Created(records.CONTROLLER, 0),), (Put(records.CONTROLLER, record, lease_id),))


def resign_controller(image: ClusterImage) -> Write:
    """Return the write after which there is no controller, for the present controller."""
    condition = Created(records.CONTROLLER, image.controller_epoch)
    return Write((condition,), (Delete(records.CONTROLLER),))


def _batches(image: ClusterImage) -> Batches[PartitionImage]:
    return Batches([Created(records.CONTROLLER, image.controller_epoch)])


def _partitions(
    image: ClusterImage, names: Iterable[str] | None
) -> Iterator[tuple[TopicImage, PartitionImage]]:
    topics: Mapping[str, TopicImage] = image.topics
    for name in topics if names is None else names:
        topic = topics.get(name)
        if topic is not None:
            for partition in topic.partitions:
                yield topic, partition


def preferred_record(image: ClusterImage, partition: PartitionImage) -> PartitionRecord | None:
    """Return the record in which the first replica leads. Return None if it leads already, is not
    in the ISR, or cannot lead, or if the partition has no leader."""
    if not partition.replicas:
        return None
    preferred = partition.replicas[0]
    if partition.leader in (preferred, NO_LEADER) or preferred not in partition.isr:
        return None
    candidates = Candidates(image, partition)
    if not candidates.serves(preferred):
        return None
    joined = members_of(partition.isr, partition.isr_epochs)[preferred]
    if joined != candidates.present_epoch(preferred):
        return None
    return PartitionRecord(
        partition.replicas,
        partition.isr,
        preferred,
        partition.leader_epoch + 1,
        partition.adding,
        partition.removing,
        partition.elr,
        partition.last_known_elr,
        partition.isr_epochs,
        partition.elr_epochs,
        partition.directories,
    )
