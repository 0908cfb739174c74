"""The partitions of a follower's fetch session that its next Fetch must read.

A session names each partition once. It may have thousands of partitions, and few of them change
between two Fetches. A partition is left out while its follower has everything: the follower is in
the ISR, fetches from the log end, and got the last values of the high watermark and the log start.
Then a change of the partition brings it back. So a Fetch costs time for each change, not for each
partition of the session as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_server.fetching.fetched_partition import FetchedPartition, PartitionKey
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.waiting import ParkedRequests, Wake


class Unread:
    """The partitions to read of one follower. All rows are unread at first.

    `fetched_ms` is the time of the follower's last Fetch, of a clock that never goes back. If
    `lasts` is False, the object serves a single Fetch, outside of sessions.
    """

    __slots__ = (
        "_broker_id",
        "_changed",
        "_lasts",
        "_on_advance",
        "_on_append",
        "_read",
        "_rows",
        "_watches",
        "fetched_ms",
    )

    def __init__(
        self,
        broker_id: int,
        rows: Iterable[FetchedPartition],
        fetched_ms: int,
        *,
        lasts: bool = True,
    ) -> None:
        self._broker_id = broker_id
        self._lasts = lasts
        # In the order of reading. A partition that returned records moves to the end, so that all
        # partitions get their turn.
        self._rows = {row.key: row for row in rows}
        self._watches: dict[PartitionKey, _Watch] = {}
        self._on_append: Wake | None = None
        self._on_advance: Wake | None = None
        # During a read that takes several turns of the loop: the partitions that are read, and
        # those of them that have changed since, each True after an append. None at other times.
        self._read: set[PartitionKey] | None = None
        self._changed: dict[PartitionKey, bool] = {}
        self.fetched_ms = fetched_ms

    def rows(self) -> list[FetchedPartition]:
        return list(self._rows.values())

    def add(self, row: FetchedPartition) -> None:
        """Read a partition, because a Fetch names it."""
        self._rows[row.key] = row

    def forget(self, key: PartitionKey) -> None:
        """Stop reading a partition, because it has left the session."""
        self._rows.pop(key, None)
        self._end_watch(key)

    def _end_watch(self, key: PartitionKey) -> None:
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.end()

    def note(
        self, row: FetchedPartition, partition: Partition, *, is_news: bool, has_records: bool
    ) -> None:
        """Note a read. The caller must call this method right after the read, before the partition
        can change. `is_news`: the response has something for the follower."""
        key = row.key
        if self._read is not None:
            self._read.add(key)
        watch = self._watches.get(key)
        if watch is None or watch.partition is not partition:
            self._end_watch(key)
            self._watches[key] = _Watch(self, row, partition)
        if has_records:
            self._rows[key] = self._rows.pop(key, row)
        elif (
            not is_news
            and row.fetch_offset == partition.log_end_offset
            and self._broker_id in partition.replicas.isr
        ):
            self._rows.pop(key, None)

    def begin_read(self) -> None:
        """Keep the changes of the partitions that are read from now on, for `await_changes`. The
        caller must call `end_read`."""
        self._read = set()
        self._changed.clear()

    def end_read(self) -> None:
        """Stop keeping changes for `await_changes`."""
        self._read = None
        changed, self._changed = self._changed, {}
        if self._on_append is None:
            for key in changed:
                self._end_watch(key)

    def await_changes(self, on_append: Wake, on_advance: Wake) -> None:
        """Call `on_append` after an append to any partition of the session, committed or not, and
        `on_advance` after another change: a high watermark, a log start, or an end of leadership. A
        later call replaces these functions. The changes since `begin_read` cause these calls at
        once."""
        self._on_append, self._on_advance = on_append, on_advance
        for is_append in set(self._changed.values()):
            (on_append if is_append else on_advance)()

    def answered(self, on_append: Wake | None = None) -> None:
        """Stop the calls of `await_changes`, because the Fetch has its response. If a later Fetch
        has replaced `on_append`, the calls for that Fetch continue."""
        if on_append is None or on_append == self._on_append:
            self._on_append = self._on_advance = None
        if not self._lasts:
            self.close()

    def close(self) -> None:
        """Stop watching, because the session has ended."""
        for watch in self._watches.values():
            watch.end()
        self._watches.clear()
        self._rows.clear()

    def appended(self, watch: _Watch) -> None:
        self._bring_back(watch, is_append=True)
        if self._on_append is not None:
            self._on_append()

    def advanced(self, watch: _Watch) -> None:
        self._bring_back(watch, is_append=False)
        if self._on_advance is not None:
            self._on_advance()

    def _bring_back(self, watch: _Watch, *, is_append: bool) -> None:
        key = watch.row.key
        if key not in self._rows:
            # The follower was in sync while its Fetches left the partition out, so each of these
            # Fetches counts as caught up.
            watch.partition.replicas.was_caught_up(self._broker_id, self.fetched_ms)
            self._rows[key] = watch.row
        if self._read is not None and key in self._read:
            self._changed[key] = is_append or self._changed.get(key, False)
        elif self._on_append is None:
            # No Fetch waits, and the next Fetch reads the partition in any case. The follower may
            # never fetch again, so the watch must not hold a deleted partition in memory.
            self._end_watch(key)


class _Watch:
    """The changes of one partition."""

    __slots__ = ("_unread", "partition", "row")

    def __init__(self, unread: Unread, row: FetchedPartition, partition: Partition) -> None:
        self._unread = unread
        self.row = row
        self.partition = partition
        if partition.follower_waiters is None:
            partition.follower_waiters = ParkedRequests()
        partition.follower_waiters.add(self._appended)
        partition.read_waiters.add(self._advanced)

    def end(self) -> None:
        if self.partition.follower_waiters is not None:
            self.partition.follower_waiters.discard(self._appended)
        self.partition.read_waiters.discard(self._advanced)

    def _appended(self) -> None:
        self._unread.appended(self)

    def _advanced(self) -> None:
        self._unread.advanced(self)
