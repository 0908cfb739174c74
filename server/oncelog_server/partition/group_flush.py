"""Group commit: a single sync makes all partitions with new data durable together.

One sync is a round. An append during a round waits for the next round, so under load a single sync
completes many requests.
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog_server.latencies import Latencies
from oncelog_server.log.results import Flush
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.waiting import raise_all
from oncelog_server.storage.files import File, Files, StorageError


def _do_nothing() -> None:
    pass


class GroupFlush:
    """Syncs partitions together. `latencies` has the times of the rounds. `before_callbacks` is
    called before the callbacks of a round."""

    def __init__(self, files: Files, monotonic_ns: Callable[[], int] = lambda: 0) -> None:
        self._files = files
        self.before_callbacks: Callable[[], None] = _do_nothing
        self._monotonic_ns = monotonic_ns
        self._began_ns = 0
        self.latencies = Latencies()
        self._dirty: dict[Partition, None] = {}
        self._running: list[tuple[Partition, Flush]] = []

    def request(self, partition: Partition) -> None:
        """Make all present records of `partition` durable. Then call the partition's `on_flushed`
        or `fail`."""
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
        """End the round and call the partitions' callbacks. Then re-raise the exceptions of the
        callbacks."""
        self.latencies.add((self._monotonic_ns() - self._began_ns) // 1000)
        running, self._running = self._running, []
        for partition, flush in running:
            partition.finish_flush(flush, error)
        self.before_callbacks()
        raised: list[Exception] = []
        for partition, flush in running:
            try:
                if error is None:
                    partition.on_flushed(flush.offset)
                else:
                    # After a failed fsync, the kernel may mark the lost pages as clean. A later
                    # fsync may then succeed although the bytes are lost, so it must not count.
                    partition.fail(str(error))
            except Exception as failure:  # the other partitions are not affected
                raised.append(failure)
        if self._dirty and not self._running:
            self._start()
        raise_all(raised)
