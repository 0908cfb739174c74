"""Group commit: a single sync makes all partitions with new data durable together.

One sync is a round. An append during a round waits for the next round, so under load a single sync
completes many requests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from oncelog_server.latencies import Latencies
from oncelog_server.log.results import Flush
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.waiting import raise_all
from oncelog_server.storage.files import File, Files, StorageError


def _do_nothing() -> None:
    pass


class GroupFlush:
    """Syncs partitions together. `latencies` has the times of the rounds. `before_callbacks` is
    called before each callback."""

    def __init__(self, files: Files, monotonic_ns: Callable[[], int] = lambda: 0) -> None:
        self._files = files
        self.before_callbacks: Callable[[], None] = _do_nothing
        self._monotonic_ns = monotonic_ns
        self._began_ns = 0
        self.latencies = Latencies()
        self._dirty: dict[Partition, None] = {}
        self._running: list[tuple[Partition, Flush]] = []

    def request(self, partition: Partition) -> None:
        """Make all present records of `partition` durable. Then call the partition's `on_flushed`.
        After an error, the partition has failed."""
        self._dirty[partition] = None
        if not self._running:
            self._start()

    def _start(self) -> None:
        dirty, self._dirty = self._dirty, {}
        self._running = [(partition, partition.begin_flush()) for partition in dirty]
        files: list[File] = [file for _, flush in self._running for file in flush.files]
        self._began_ns = self._monotonic_ns()
        self._files.sync(files, self._done)

    def _done(self, error: StorageError | None) -> None:
        """End the round. Then re-raise the exceptions of the partitions' callbacks."""
        self.latencies.add((self._monotonic_ns() - self._began_ns) // 1000)
        running, self._running = self._running, []
        raised: list[Exception] = []
        for partition, flush in running:
            try:
                settled = partition.finish_flush(flush, error)
                settled.on_complete(partial(self._settled, partition, flush))
            except Exception as failure:  # the other partitions are not affected
                raised.append(failure)
        if self._dirty and not self._running:
            self._start()
        raise_all(raised)

    def _settled(self, partition: Partition, flush: Flush, counts: bool) -> None:
        """Call the partition's callback, or sync the partition again if it was cut meanwhile."""
        self.before_callbacks()
        if counts:
            partition.on_flushed(flush.offset)
        elif partition.offline is None and partition.failure is None:
            self.request(partition)
