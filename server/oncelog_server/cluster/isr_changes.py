"""Changes of the ISR by the leader of a partition, as conditional writes. They stand in for Kafka's
AlterPartition (KIP-497), with its checks of broker epochs (KIP-903) and of stopping brokers
(KIP-841)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from oncelog_server.cluster import records
from oncelog_server.cluster.batches import Batch, Batches
from oncelog_server.cluster.image import ClusterImage, PartitionImage
from oncelog_server.cluster.partition_change import (
    Candidates,
    ElectionRules,
    Members,
    members_of,
    with_isr,
)
from oncelog_server.cluster.store import Compare, Created, Put, Written


class IsrChange(msgspec.Struct, frozen=True):
    """A new ISR that the leader proposes. `leader_epoch` and `partition_epoch` are those of the
    state that the leader has decided on.

    `joining` are the broker epochs of the followers to add, as in their fetch requests. `isr`
    contains the leader.
    """

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    joining: Mapping[int, int] = {}


class Leader(msgspec.Struct, frozen=True):
    """The registration under which a broker changes the ISR of its partitions."""

    broker_id: int
    broker_epoch: int


class IsrWrites(msgspec.Struct, frozen=True):
    """The transactions that make the changes, each with at most 100 changes.

    If a transaction fails, the caller decides its changes again from a newer image in two halves,
    and at last one by one: a single conflict must not hold up the others. `refused` are the changes
    that the image rules out. The leader must decide these again from its new state.
    """

    batches: list[Batch[IsrChange]]
    refused: list[IsrChange]


def isr_writes(
    image: ClusterImage, rules: ElectionRules, leader: Leader, changes: Sequence[IsrChange]
) -> IsrWrites:
    """Return the transactions for the proposed changes.

    Each transaction has conditions. The leader's registration still exists: a leader with an ended
    lease changes nothing. The partition epochs are unchanged. Each follower to add has the same
    registration, and does not drain. Other members keep the epoch that is recorded for them.
    """
    batches: Batches[IsrChange] = Batches(
        [Created(records.broker_key(leader.broker_id), leader.broker_epoch)]
    )
    refused: list[IsrChange] = []
    for change in changes:
        topic = image.topic_by_id(change.topic_id)
        partition = None if topic is None else image.partition(topic.name, change.partition)
        isr = None if partition is None else _new_isr(image, leader, partition, change)
        if topic is None or partition is None or isr is None:
            refused.append(change)
            continue
        record = with_isr(image, rules, topic, partition, isr)
        key = records.partition_key(topic.id_text, change.partition)
        compare = [Written(key, change.partition_epoch), *_followers(change)]
        batches.add(change, compare, Put(key, records.encode(record)))
    return IsrWrites(batches.batches(), refused)


def halves(changes: Sequence[IsrChange]) -> list[Sequence[IsrChange]]:
    """Return the changes of a failed transaction in two parts, none if it had a single change."""
    if len(changes) < 2:
        return []
    middle = len(changes) // 2
    return [changes[:middle], changes[middle:]]


def _followers(change: IsrChange) -> list[Compare]:
    conditions: list[Compare] = []
    for broker_id, epoch in change.joining.items():
        conditions.append(Created(records.broker_key(broker_id), epoch))
        conditions.append(Created(records.draining_key(broker_id), 0))
    return conditions


def _new_isr(
    image: ClusterImage, leader: Leader, partition: PartitionImage, change: IsrChange
) -> Members | None:
    """Return the new ISR with its epochs, None if the image rules it out."""
    epochs = (change.leader_epoch, change.partition_epoch)
    if epochs != (partition.leader_epoch, partition.partition_epoch):
        return None
    recorded = members_of(partition.isr, partition.isr_epochs)
    # A leader that has registered again must first be confirmed by the controller.
    if partition.leader != leader.broker_id or recorded.get(leader.broker_id) != (
        leader.broker_epoch
    ):
        return None
    if leader.broker_id not in change.isr:
        return None
    candidates = Candidates(image, partition)
    isr: Members = {}
    for broker_id in change.isr:
        if broker_id in recorded:
            isr[broker_id] = recorded[broker_id]
            continue
        epoch = change.joining.get(broker_id)
        if epoch is None or broker_id not in partition.replicas:
            return None
        if not candidates.serves(broker_id) or candidates.present_epoch(broker_id) != epoch:
            return None
        isr[broker_id] = epoch
    return isr
