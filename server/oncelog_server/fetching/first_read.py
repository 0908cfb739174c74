"""The changes during the first read of a Fetch with many partitions. The read takes several turns
of the loop, so a partition may change after its read and before the Fetch waits for changes."""

from __future__ import annotations

from oncelog_server.fetching.fetched_partition import PartitionKey
from oncelog_server.fetching.read import Find
from oncelog_server.fetching.unread import Unread
from oncelog_server.partition.partition import Partition


class FirstRead:
    """Notes the changes of each partition from its read on. `find` looks up the partitions. For a
    follower, `unread` notes the changes, and `has_changed` stays False. The caller must call `end`
    after the Fetch has its response or waits for changes."""

    __slots__ = ("_changed", "_find", "_partitions", "_unread", "has_changed")

    def __init__(self, find: Find, unread: Unread | None) -> None:
        self._find = find
        self._unread = unread
        self._partitions: list[Partition] = []
        self._changed = self._note_change  # bound once for all partitions
        self.has_changed = False
        if unread is not None:
            unread.begin_read()

    def find(self, key: PartitionKey) -> Partition:
        """Return the partition of `find`. The caller must read it in this turn of the loop. Raises
        Refused."""
        partition = self._find(key)
        if self._unread is None:
            partition.read_waiters.add(self._changed)
            self._partitions.append(partition)
        return partition

    def end(self) -> None:
        """Stop noting changes."""
        if self._unread is not None:
            self._unread.end_read()
        for partition in self._partitions:
            partition.read_waiters.discard(self._changed)
        self._partitions.clear()

    def _note_change(self) -> None:
        self.has_changed = True
