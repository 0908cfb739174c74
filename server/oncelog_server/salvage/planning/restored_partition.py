"""The replicas and the leader of one partition, chosen from its folders."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from oncelog_server.cluster.records import PartitionRecord
from oncelog_server.salvage.planning.evidence import FolderFacts


class Replica(msgspec.Struct, frozen=True):
    """The folder of a partition in the directory of a broker."""

    node_id: int
    facts: FolderFacts


def restored_partition(
    before: PartitionRecord | None,
    replicas: Sequence[Replica],
    given: Collection[int],
    *,
    leader_epoch: int,
    broker_epoch: int,
) -> PartitionRecord:
    """Return the record of a partition. The longest log with the latest leader epoch leads, and the
    other replicas fetch the records that they lack. This log has every committed record, except
    records that were only in lost directories: each clean leader has all records that were
    committed before its epoch, and of two logs with the same latest epoch, the shorter is the
    beginning of the longer. Of a damaged log, only the part before the damage counts.

    `before` is the record in older metadata, `replicas` are the folders on disk. `given` are the
    brokers with a directory, at least one. `broker_epoch` is the leader's broker epoch in the ISR.
    """
    assigned = _assigned(before, replicas, given)
    leader = max(
        replicas,
        key=lambda r: (r.facts.whole_epoch, r.facts.whole_end, -assigned.index(r.node_id)),
        default=None,
    )
    leader_id = leader.node_id if leader else next(b for b in assigned if b in given)
    return PartitionRecord(
        assigned, (leader_id,), leader_id, leader_epoch, isr_epochs=(broker_epoch,)
    )


def _assigned(
    before: PartitionRecord | None, replicas: Sequence[Replica], given: Collection[int]
) -> tuple[int, ...]:
    known = () if before is None else before.replicas
    on_disk = sorted(replica.node_id for replica in replicas)
    assigned = (*known, *(node_id for node_id in on_disk if node_id not in known))
    if not any(node_id in given for node_id in assigned):
        # All replicas are lost, or no source names a replica: a broker gets the empty partition.
        assigned = (*assigned, min(given))
    return assigned
