"""A check that every log is durable up to its recovery point (I9). The check runs after each sync,
because a violation may last only a millisecond."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from oncelog_server.log.log import PartitionLog
from oncelog_server.partition.partition import Partition
from tests.simulation.disk import SimDisk


def not_durable(
    partitions: Collection[Partition], directories: Collection[str], disk: SimDisk
) -> list[str]:
    """Return violations in the logs with files in `directories`."""
    return [
        f"I9: {path} has unsynced bytes below the recovery point {log.recovery_point}"
        for log in (partition._log for partition in partitions)
        if log.directory in directories and log.failure is None
        for path in _beyond(log, disk)
    ]


def _beyond(log: PartitionLog, disk: SimDisk) -> Iterator[str]:
    """Yield the paths of closed segments below the recovery point with unsynced bytes. Bytes
    of a failed sync are not found, because the disk counts them as clean."""
    for segment in log.segments[:-1]:
        if segment.end_offset <= log.recovery_point:
            inode = disk.names.files.get(segment.log.path)
            if inode is not None and inode.unsynced and len(inode.durable) < segment.size:
                yield segment.log.path
