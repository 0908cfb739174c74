"""The next ISR, ELR and leader of a partition, for the brokers that an image shows.

The rules are those of Kafka's PartitionChangeBuilder (KIP-966, KIP-455). Each member has the broker
epoch in which it became a member. After a restart, it counts only if its data directory has kept
every record that it had in that epoch (KIP-903).
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from oncelog_server.cluster import records, replica_directories
from oncelog_server.cluster.batches import Batches
from oncelog_server.cluster.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from oncelog_server.cluster.members import BrokerImage, Replica
from oncelog_server.cluster.reassignment import Reassignment
from oncelog_server.cluster.records import PartitionRecord
from oncelog_server.cluster.store import Compare, Created, Put, Written
from oncelog_server.settings.model import Settings

# Members of an ISR or ELR, each with the broker epoch in which it became a member.
Members = dict[int, int]
UNKNOWN_EPOCH = -1


class ElectionRules(msgspec.Struct, frozen=True):
    """The broker's values of the settings that decide elections. A topic's own values override
    them. `is_forced`: an operator requests unclean elections."""

    min_insync_replicas: int = 1
    unclean: bool = False
    is_forced: bool = False

    @classmethod
    def of(cls, settings: Settings) -> ElectionRules:
        return cls(settings.min_insync_replicas, settings.unclean_leader_election_enable)

    def min_isr(self, topic: TopicImage, partition: PartitionImage) -> int:
        """Return min.insync.replicas, but at most the number of replicas (Kafka's
        effectiveMinIsr)."""
        own = topic.settings.get("min.insync.replicas")
        needed = self.min_insync_replicas if own is None else int(own)
        return min(needed, len(partition.replicas))

    def allows_unclean(self, topic: TopicImage) -> bool:
        """Return True if a replica outside ISR and ELR may become leader."""
        if self.is_forced:
            return True
        own = topic.settings.get("unclean.leader.election.enable")
        return self.unclean if own is None else own == "true"


class Candidates:
    """The brokers of an image as replicas of one partition."""

    def __init__(self, image: ClusterImage, partition: PartitionImage) -> None:
        self._brokers: Mapping[int, BrokerImage] = image.brokers
        self._draining = image.draining
        self._failed = image.failed
        self._partition = partition

    def serves(self, broker_id: int) -> bool:
        """Return True if the broker may lead the partition: it is alive, does not drain, and its
        replica has not failed."""
        return (
            broker_id in self._brokers
            and broker_id not in self._draining
            and not self.has_failed(broker_id)
        )

    def may_stay(self, broker_id: int) -> bool:
        """Return True if the broker can serve the partition until it stops: it is alive (it may
        drain), and its replica has not failed."""
        return broker_id in self._brokers and not self.has_failed(broker_id)

    def has_failed(self, broker_id: int) -> bool:
        partition = self._partition
        replica = (broker_id, partition.topic_id, partition.partition)
        return bool(self._failed) and replica in self._failed

    def epoch(self, broker_id: int, recorded: int) -> int | None:
        """Return the present epoch of a broker that became a member in the epoch `recorded`. Return
        `recorded` if the broker is not alive, and None if it may have lost records.

        The only replica of a partition always counts, because no other replica has more. A replica
        that is still being added does not count as another replica.
        """
        broker = self._brokers.get(broker_id)
        if broker is None or broker.epoch == recorded:
            return recorded
        if recorded in broker.kept_epochs or self.is_single:
            return broker.epoch
        return None

    @property
    def is_single(self) -> bool:
        """Return True if the partition has one replica, besides those that are being added."""
        partition = self._partition
        members = (*partition.isr, *partition.elr)
        return sum(b not in partition.adding or b in members for b in partition.replicas) == 1

    def present_epoch(self, broker_id: int) -> int:
        return self._brokers[broker_id].epoch

    def may_be_empty(self, partition: PartitionImage, broker_id: int) -> bool:
        """Return True if the replica of a live broker may have no record (`may_be_empty`).
        `partition` has the replicas after the change."""
        return replica_directories.may_be_empty(partition, self._brokers[broker_id])

    def directories(self, partition: PartitionImage, isr: Members) -> tuple[str | None, ...]:
        """Return the directories of the replicas after the change, with the ISR `isr`."""
        return replica_directories.directories_with(partition, isr, self._brokers)


def add_change(
    batches: Batches[PartitionImage],
    image: ClusterImage,
    topic: TopicImage,
    partition: PartitionImage,
    record: PartitionRecord,
) -> None:
    """Add the change of a partition. A new leader must still have the registration that the image
    shows."""
    key = records.partition_key(topic.id_text, partition.partition)
    compare: list[Compare] = [Written(key, partition.partition_epoch)]
    if record.leader != NO_LEADER and record.leader_epoch != partition.leader_epoch:
        epoch = image.brokers[record.leader].epoch
        compare.append(Created(records.broker_key(record.leader), epoch))
    batches.add(partition, compare, Put(key, records.encode(record)))


def members_of(ids: tuple[int, ...], epochs: tuple[int, ...]) -> Members:
    """Return the members with their epochs. Records of earlier versions have no epochs."""
    if len(epochs) != len(ids):
        epochs = (*epochs, *(UNKNOWN_EPOCH for _ in ids[len(epochs) :]))
    return dict(zip(ids, epochs, strict=False))


def is_settled(
    partition: PartitionImage, epochs: Mapping[int, int], failed: Container[Replica]
) -> bool:
    """Return True if nothing can change, as for nearly all partitions. `epochs` are the epochs of
    the brokers that are alive and do not drain, `failed` the failed replicas of all partitions. A
    failed replica outside of the ISR changes nothing."""
    if partition.leader not in partition.isr or partition.elr:
        return False
    if partition.adding or partition.removing:
        return False
    if partition.isr_epochs != tuple(map(epochs.get, partition.isr)):
        return False
    topic_id, index = partition.topic_id, partition.partition
    return not failed or not any((id, topic_id, index) in failed for id in partition.isr)


def next_record(
    image: ClusterImage,
    rules: ElectionRules,
    topic: TopicImage,
    partition: PartitionImage,
    wanted: Reassignment | None = None,
) -> PartitionRecord | None:
    """Return the record that the controller writes, None if nothing changes. `wanted` replaces the
    partition's reassignment.

    A member leaves the ISR if it is not alive, drains, has failed, or may have lost records. If the
    rest of the ISR allows it, the reassignment is completed. The order of candidates for the leader
    is: the present leader, the ISR, the ELR, each in the order of the replicas; then a present
    leader that drains; then, if unclean elections are allowed, the last known leader and any other
    live replica. The leader epoch increases with each new leader, if a replica is removed, and if a
    restarted broker leads again: clients detect by it that records may be missing (KIP-320).
    """
    if not partition.replicas:
        return None
    candidates = Candidates(image, partition)
    is_alone = partition.replicas == partition.isr == (partition.leader,)
    if is_alone and wanted is None and candidates.serves(partition.leader):
        # A single broker's start decides this for each partition. The shortcut halves the time.
        return _leads_alone(partition, candidates.present_epoch(partition.leader))
    isr = live_members(candidates, partition)
    # Members are chosen by the replicas before the change: if there were other replicas, a replica
    # that may have lost records is no member.
    before, partition = partition, _assigned(rules, topic, partition, wanted, isr)
    isr = {broker_id: isr[broker_id] for broker_id in isr if broker_id in partition.replicas}
    recorded = members_of(partition.isr, partition.isr_epochs)
    elr = _elr(candidates, partition, isr, rules.min_isr(topic, partition))
    leader = partition.leader
    next_epoch = partition.leader_epoch + 1
    loses_replica = not set(before.replicas).issubset(partition.replicas)
    kept_epoch = next_epoch if loses_replica else partition.leader_epoch
    if leader in isr and isr[leader] == recorded[leader]:
        return _changed(before, _record(candidates, partition, isr, elr, leader, kept_epoch))
    found = _first(partition, isr)
    if found == NO_LEADER:
        found = next(
            (b for b in partition.replicas if b in elr and candidates.serves(b)), NO_LEADER
        )
        if found != NO_LEADER:
            isr = {found: elr.pop(found)}
    if found == NO_LEADER and (staying := staying_members(candidates, partition)):
        elr = _elr(candidates, partition, staying, rules.min_isr(topic, partition))
        return _changed(before, _record(candidates, partition, staying, elr, leader, kept_epoch))
    if found == NO_LEADER and (rules.allows_unclean(topic) or len(partition.replicas) == 1):
        found = _unclean(candidates, partition, has_members=bool(elr), takes_added=rules.is_forced)
        if found != NO_LEADER:
            isr, elr = {found: candidates.present_epoch(found)}, {}
    # A leader from outside of the old ISR may be the last replica that the reassignment needs.
    partition = _assigned(rules, topic, partition, None, isr)
    if len(isr) >= rules.min_isr(topic, partition):
        # From here on, records are committed without the members of the ELR.
        elr = {}
    elr = {broker_id: elr[broker_id] for broker_id in elr if broker_id in partition.replicas}
    if found == leader == NO_LEADER:
        return _changed(before, _record(candidates, partition, isr, elr, NO_LEADER, kept_epoch))
    return _changed(before, _record(candidates, partition, isr, elr, found, next_epoch))


def live_members(candidates: Candidates, partition: PartitionImage) -> Members:
    """Return the members of the ISR that serve and have every record, with their present epochs."""
    return {
        broker_id: epoch
        for broker_id, old in members_of(partition.isr, partition.isr_epochs).items()
        if candidates.serves(broker_id) and (epoch := candidates.epoch(broker_id, old)) is not None
    }


def _assigned(
    rules: ElectionRules,
    topic: TopicImage,
    partition: PartitionImage,
    wanted: Reassignment | None,
    isr: Members,
) -> PartitionImage:
    """Return the partition with the reassignment `wanted`, or with its own. The reassignment is
    completed if the ISR `isr` and the min ISR allow it."""
    if wanted is None and not partition.is_reassigning:
        return partition
    wanted = wanted or Reassignment.of(partition)
    moving = _moving(partition, wanted)
    then = wanted.completed(isr, rules.min_isr(topic, moving))
    return moving if then is None else _moving(partition, then)


def _moving(partition: PartitionImage, then: Reassignment) -> PartitionImage:
    return msgspec.structs.replace(
        partition,
        replicas=then.replicas,
        adding=then.adding,
        removing=then.removing,
        directories=replica_directories.assigned_directories(partition, then.replicas),
    )


def _leads_alone(partition: PartitionImage, epoch: int) -> PartitionRecord | None:
    """Return the record of the only replica, which leads again after a restart. Return None if its
    epoch is still `epoch`."""
    if partition.isr_epochs == (epoch,):
        return None
    return PartitionRecord(
        partition.replicas,
        partition.isr,
        partition.leader,
        partition.leader_epoch + 1,
        partition.adding,
        partition.removing,
        isr_epochs=(epoch,),
    )


def with_isr(
    image: ClusterImage,
    rules: ElectionRules,
    topic: TopicImage,
    partition: PartitionImage,
    isr: Members,
) -> PartitionRecord:
    """Return the record in which the leader has changed the ISR to `isr`, with the ELR that follows
    from it. Leader and leader epoch stay."""
    candidates = Candidates(image, partition)
    elr = _elr(candidates, partition, isr, rules.min_isr(topic, partition))
    return _record(candidates, partition, isr, elr, partition.leader, partition.leader_epoch)


def _elr(candidates: Candidates, partition: PartitionImage, isr: Members, min_isr: int) -> Members:
    """Return the ELR next to the ISR `isr`, in the order of the replicas.

    While the ISR is below the min ISR, the high watermark stands still. So the members of the old
    ISR and ELR have every committed record, unless a restart has lost some. Failed replicas are
    members only if the ISR is empty and no other member is left: their disks may have lost what the
    brokers have written.
    """
    if len(isr) >= min_isr:
        return {}
    old = members_of(partition.elr, partition.elr_epochs)
    old |= members_of(partition.isr, partition.isr_epochs)
    kept = {
        broker_id: epoch
        for broker_id in partition.replicas
        if broker_id in old
        and broker_id not in isr
        and (epoch := candidates.epoch(broker_id, old[broker_id])) is not None
    }
    sound = {b: epoch for b, epoch in kept.items() if not candidates.has_failed(b)}
    return sound if sound or isr else kept


def _first(partition: PartitionImage, members: Members) -> int:
    return next((b for b in partition.replicas if b in members), NO_LEADER)


def staying_members(candidates: Candidates, partition: PartitionImage) -> Members:
    """Return the ISR of a draining leader that no other replica can replace, {} without such a
    leader. The partition is served until the broker stops. Kafka makes the partition leaderless at
    once."""
    recorded = members_of(partition.isr, partition.isr_epochs)
    staying = {
        broker_id: epoch
        for broker_id, old in recorded.items()
        if broker_id in partition.replicas
        and candidates.may_stay(broker_id)
        and (epoch := candidates.epoch(broker_id, old)) is not None
    }
    leader = partition.leader
    return staying if leader in staying and staying[leader] == recorded[leader] else {}


def _unclean(
    candidates: Candidates, partition: PartitionImage, *, has_members: bool, takes_added: bool
) -> int:
    """Return the leader of an unclean election: the last known leader if there is no ELR, else the
    first replica that can lead. A replica that may be empty comes after all others, also if it is
    the last known leader: its disk may have been replaced while another replica has records.

    The election of a replica that is being added would complete the reassignment, and the brokers
    of the other replicas would delete their logs. So it is elected only with `takes_added`, which
    stands for an election that an operator requests.
    """
    last = partition.last_known_elr
    replicas = [b for b in partition.replicas if candidates.serves(b)]
    if not takes_added:
        replicas = [b for b in replicas if b not in partition.adding or b in last]
    leads_first = last if not has_members and len(last) == 1 else ()
    replicas.sort(
        key=lambda b: (
            candidates.may_be_empty(partition, b),
            b not in leads_first,
            b in partition.adding,
        )
    )
    return next(iter(replicas), NO_LEADER)


def _changed(partition: PartitionImage, record: PartitionRecord) -> PartitionRecord | None:
    """Return the record, None if it is the same as that of the partition."""
    same = (
        record.isr == partition.isr
        and record.isr_epochs == partition.isr_epochs
        and record.elr == partition.elr
        and record.elr_epochs == partition.elr_epochs
        and record.last_known_elr == partition.last_known_elr
        and record.leader_epoch == partition.leader_epoch
        and record.replicas == partition.replicas
        and record.adding == partition.adding
        and record.removing == partition.removing
    )
    return None if same else record


def _record(
    candidates: Candidates,
    partition: PartitionImage,
    isr: Members,
    elr: Members,
    leader: int,
    leader_epoch: int,
) -> PartitionRecord:
    last_known = partition.last_known_elr
    if isr:
        last_known = ()
    elif partition.isr and partition.leader != NO_LEADER:
        last_known = (partition.leader,)
    return PartitionRecord(
        partition.replicas,
        tuple(isr),
        leader,
        leader_epoch,
        partition.adding,
        partition.removing,
        tuple(elr),
        last_known,
        tuple(isr.values()),
        tuple(elr.values()),
        candidates.directories(partition, isr),
    )
