"""The data directory in which each replica of a partition was in the ISR last (KIP-858).

A replica in another directory than that has no record that is certain: its disk was replaced, and
it has not fetched every record again. This outlasts restarts, because it is a fact about the
partition, not about one registration of the broker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from oncelog_server.cluster.image import PartitionImage
from oncelog_server.cluster.members import BrokerImage

# The ids of directories in the order of the replicas. None: the replica was in no ISR yet.
Directories = tuple[str | None, ...]
# Earlier versions wrote no directories, and an old meta.properties has no id.
UNKNOWN: Final = ""


def may_be_empty(partition: PartitionImage, broker: BrokerImage) -> bool:
    """Return True if the replica of a live broker was never in the ISR with its present data
    directory. If this is unknown, return True only for a replica that is being added and did not
    lead last."""
    directory = _known(partition).get(broker.id, UNKNOWN)
    if UNKNOWN in (directory, broker.directory_id):
        return broker.id in partition.adding and broker.id not in partition.last_known_elr
    return directory != broker.directory_id


def first_directories(
    replicas: Sequence[int], isr: Collection[int], brokers: Mapping[int, BrokerImage]
) -> Directories:
    """Return the directories of a new partition."""
    return _compact([brokers[b].directory_id if b in isr else None for b in replicas])


def assigned_directories(partition: PartitionImage, replicas: Sequence[int]) -> Directories:
    """Return the directories for other replicas of the partition. A replica that is new to the
    partition has no record."""
    known = _known(partition)
    return _compact([known.get(broker_id) for broker_id in replicas])


def directories_with(
    partition: PartitionImage, isr: Mapping[int, int], brokers: Mapping[int, BrokerImage]
) -> Directories:
    """Return the directories after the members of the ISR `isr` have got their present ones. `isr`
    has the broker epoch of each member. A member that is not alive keeps its entry."""
    known = _known(partition)
    for broker_id, epoch in isr.items():
        broker = brokers.get(broker_id)
        if broker is not None and broker.epoch == epoch:
            known[broker_id] = broker.directory_id
    return _compact([known[broker_id] for broker_id in partition.replicas])


def _known(partition: PartitionImage) -> dict[int, str | None]:
    """Return the directory of each replica."""
    if len(partition.directories) != len(partition.replicas):
        return dict.fromkeys(partition.replicas, UNKNOWN)
    return dict(zip(partition.replicas, partition.directories, strict=True))


def _compact(directories: Sequence[str | None]) -> Directories:
    """Return () if nothing is known, and for the only replica of a partition: it always leads."""
    if len(directories) == 1 or all(directory == UNKNOWN for directory in directories):
        return ()
    return tuple(directories)
