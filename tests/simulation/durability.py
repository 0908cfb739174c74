"""What a log calls durable is on the platter, at every moment and not only where the power fails
(I9): a gap may be open for a millisecond."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from oncelog_server.log.log import PartitionLog
from oncelog_server.partition.partition import Partition
from tests.simulation.disk import SimDisk


def not_durable(
    partitions: Collection[Partition], directories: Collection[str], disk: SimDisk
) -> list[str]:
    """What is wrong with those whose files are in `directories`."""
    return [
        f"I9: {path} is called durable up to {log.recovery_point}, and is not"
        for log in (partition._log for partition in partitions)
        if log.directory in directories and log.failure is None
        for path in _beyond(log, disk)
    ]


def _beyond(log: PartitionLog, disk: SimDisk) -> Iterator[str]:
    """Closed segments below the recovery point with bytes that no sync has covered. What a sync
    that failed has left out is no longer known as such."""
    for segment in log.segments[:-1]:
        if segment.end_offset <= log.recovery_point:
            inode = disk.names.files.get(segment.log.path)
            if inode is not None and inode.unsynced and len(inode.durable) < segment.size:
                yield segment.log.path
