"""The rules of replication, checked at each change of the metadata and at each move of a high
watermark, before anything follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from oncelog_server.cluster.records import PartitionRecord
from oncelog_server.partition.partition import Partition
from tests.simulation.cluster.batches import Batches, BatchId
from tests.simulation.cluster.committed import Committed
from tests.simulation.cluster.metadata import Metadata
from tests.simulation.etcd.kv import Kv
from tests.simulation.process import CURRENT

if TYPE_CHECKING:
    from tests.simulation.cluster.member_node import MemberNode
    from tests.simulation.cluster.world import ClusterWorld

NO_LEADER: Final = -1
# The setting min.insync.replicas of all topics.
MIN_ISR: Final = 2


class Rules:
    """The rules. Each violation names its rule."""

    def __init__(self, world: ClusterWorld, kv: Kv) -> None:
        self._world = world
        self.committed = Committed()
        self.metadata = Metadata(kv, self._changed)
        self._batches = {id: Batches(node.disk) for id, node in world.nodes.items()}
        # The leader of each partition in each leader epoch.
        self._leaders: dict[tuple[str, int], int] = {}
        self._is_over = False

    def replace_disk(self, node: MemberNode) -> None:
        """Read the batches of a broker from its new, empty disk."""
        self._batches[node.broker_id] = Batches(node.disk)
        node.lost_at_revision = self.metadata.revision

    # --- changes of the metadata

    def _changed(self, name: str, before: PartitionRecord | None, now: PartitionRecord) -> None:
        """Check a record at its change (LeaderInIsr, StrongIsr)."""
        if now.leader != NO_LEADER and now.leader not in now.isr:
            self._violate("LeaderInIsr", name, f"{now}")
        if not {*now.isr, *now.elr} <= {*now.replicas} or {*now.isr} & {*now.elr}:
            self._violate("StrongIsr", name, f"{now}")
        if before is None:
            self.committed.forget(name)
            self._leaders = {key: id for key, id in self._leaders.items() if key[0] != name}
            return
        if now.leader_epoch < before.leader_epoch or (
            now.leader != before.leader and now.leader_epoch == before.leader_epoch
        ):
            self._violate("LeaderEpoch", name, f"{before} became {now}")
        for id in set(now.isr) - set(before.isr):
            # A power loss between its last fetch and this write may have taken records.
            if self.is_sound(id, now):
                self._check_joined(name, id, now)
        for id in (*now.isr, *now.elr):
            if self.is_sound(id, now):
                self._check_complete(name, id, "ReplicaComplete")
        if not self._is_over:
            self._observe(before, now)

    def _observe(self, before: PartitionRecord, now: PartitionRecord) -> None:
        if now.leader != before.leader:
            self._world.sometimes.met("leader elected" if now.leader >= 0 else "leader lost")
            # The last leader is still in the ISR, so it could have continued.
            is_preferred = now.leader == now.replicas[0] and before.leader in now.isr
            self._world.sometimes.met("preferred leader elected", is_preferred)
        if len(now.isr) < len(before.isr):
            self._world.sometimes.met("ISR shrunk")
        elif len(now.isr) > len(before.isr):
            self._world.sometimes.met("ISR grown")
        if now.elr:
            self._world.sometimes.met("ELR")

    def _check_joined(self, name: str, broker_id: int, record: PartitionRecord) -> None:
        """Check that a new member has all records up to the start of the leader epoch."""
        leader = self._world.nodes.get(record.leader)
        for partition in leader.broker.partitions if leader is not None and leader.is_up else ():
            if str(partition.topic_partition) != name or not partition.is_leader:
                continue
            start = partition.replicas.epoch_start_offset
            log = self._batches[broker_id].of(name)
            if partition.leader_epoch == record.leader_epoch and _end_of(log) < start:
                what = f"broker {broker_id} ends at {_end_of(log)}, the epoch begins at {start}"
                self._violate("JoinedIsr", name, what)

    def is_sound(self, broker_id: int, record: PartitionRecord) -> bool:
        """Return True if a member has lost no records since it joined. A broker that has lost
        records in a power loss stays a member until the controller notices the loss."""
        node = self._world.nodes[broker_id]
        members = (*record.isr, *record.elr)
        epochs = (*record.isr_epochs, *record.elr_epochs)
        epoch = epochs[members.index(broker_id)] if len(epochs) == len(members) else 0
        return epoch > node.lost_at_revision

    # --- moves of the high watermark

    def moved(self, partition: Partition, before: int | None) -> None:
        """Check a high watermark right after its move."""
        node = self._present_node()
        if node is None:
            return
        name, high = str(partition.topic_partition), partition.high_watermark
        log = self._batches[node.broker_id].of(name)
        if before is None or not partition.is_leader:
            self._check_follower(node, name, log, before or 0, high)
            return
        if high < before:
            self._violate("HighWatermark", name, f"{node.host} moves it from {before} to {high}")
        self._check_maximal_isr(node, partition)
        replicas = partition.replicas
        if len(replicas.isr) < min(MIN_ISR, len(replicas.assignment)):
            what = f"{node.host} moves it to {high} with the ISR {replicas.isr}"
            self._violate("MinIsr", name, what)
        wrong = self.committed.extend(name, log, before, high)
        if wrong is not None:
            self._violate("CommittedForEver", name, f"{node.host} at {high}: {wrong}")
        record = self.metadata.partitions.get(name)
        for id in record.isr if record is not None else ():
            if record is not None and self.is_sound(id, record):
                self._check_complete(name, id, "LogMatching", before, high)

    def _check_follower(
        self, node: MemberNode, name: str, log: list[BatchId], before: int, high: int
    ) -> None:
        if high > _end_of(log):
            what = f"{node.host} has {high}, its log ends at {_end_of(log)}"
            self._violate("HighWatermark", name, what)
        if high > self.committed.end(name):
            what = f"{node.host} has {high}, no leader had more than {self.committed.end(name)}"
            self._violate("HighWatermark", name, what)
        wrong = self.committed.missing(name, log, before, high)
        if wrong is not None:
            self._violate("LogMatching", name, f"{node.host} below {high}: {wrong}")

    def _check_maximal_isr(self, node: MemberNode, partition: Partition) -> None:
        """Check that the high watermark waits for all members that the metadata has
        (ReplicationQuorumSuperset)."""
        name = str(partition.topic_partition)
        record = self.metadata.partitions.get(name)
        if record is None or record.leader_epoch != partition.leader_epoch:
            return
        maximal = partition.replicas.maximal_isr
        if not {*record.isr, *record.elr} <= maximal:
            what = f"{node.host} waits for {sorted(maximal)}, the metadata has {record}"
            self._violate("QuorumSuperset", name, what)

    # --- leaders

    def leads(self, partition: Partition, before: bool | None) -> None:
        """Check a broker that begins to lead."""
        node = self._present_node()
        if node is None or not partition.is_leader:
            return
        name, epoch = str(partition.topic_partition), partition.leader_epoch
        other = self._leaders.setdefault((name, epoch), node.broker_id)
        if other != node.broker_id:
            self._violate("OneLeader", name, f"{node.host} and broker {other} in epoch {epoch}")
        record = self.metadata.partitions.get(name)
        if record is not None and (record.leader, record.leader_epoch) == (node.broker_id, epoch):
            self._check_complete(name, node.broker_id, "LeaderComplete")

    # --- at the end

    def check_all(self) -> None:
        """Check that each replica has everything that was ever committed. After this call, the
        brokers stop for the last time."""
        self._is_over = True
        for name in self.committed:
            for id in self.metadata.partitions[name].replicas:
                self._check_complete(name, id, "NothingLost")

    def differences(self, name: str, broker_ids: Sequence[int]) -> Iterator[str]:
        """Yield the first difference of each other broker's log from the first broker's log."""
        first, *others = broker_ids
        log = self._batches[first].of(name)
        for id in others:
            other = self._batches[id].of(name)
            for batch, found in zip_longest(log, other):
                if batch != found:
                    yield f"{name}: broker {first} has {batch}, broker {id} has {found}"
                    break

    def _check_complete(
        self, name: str, broker_id: int, rule: str, first: int = 0, end: int | None = None
    ) -> None:
        wrong = self.committed.missing(name, self._batches[broker_id].of(name), first, end)
        if wrong is not None:
            self._violate(rule, name, f"broker {broker_id}: {wrong}")

    def _present_node(self) -> MemberNode | None:
        process = CURRENT.get()
        return None if process is None else self._world.node_of(process)

    def _violate(self, rule: str, name: str, what: str) -> None:
        self._world.violate(f"{rule}: {name}: {what}")


def _end_of(log: Sequence[BatchId]) -> int:
    return log[-1].last + 1 if log else 0
