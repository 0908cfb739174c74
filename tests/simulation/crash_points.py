"""The points at which a test crashes the broker during a transaction, as moments on its disk.

The transaction writes to three partitions and a group's offsets. Appends are counted per log, and
only after the producer's initialization. In a data partition, the first append is the record and
the second is the marker. In `__transaction_state`, four appends add partitions, then PREPARE and
COMPLETE follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from oncelog_server.storage.files import Buffer, Done, File, StorageError
from oncelog_server.storage.layout import partition_directory
from oncelog_server.topic_partition import TopicPartition
from tests.server.storage.memory_files import MemoryFile, MemoryFiles
from tests.server.transaction.world import A0, A1, B0, TXN_LOG


class When(Enum):
    """The moment, relative to an append. SYNCED: the append is on the disk, but no response has
    left. Without flush.on.ack no response waits for a sync, so SYNCED equals AFTER. ANSWERED: the
    response to EndTxn has left, but the markers cannot be written."""

    BEFORE = "before"
    AFTER = "after"
    SYNCED = "synced"
    ANSWERED = "answered"


class Point(NamedTuple):
    """A point. `survivors`: the possible states of the transaction on the disk after the fault.
    PREPARED is PrepareCommit or PrepareAbort, and COMPLETED is CompleteCommit or CompleteAbort, as
    the client has requested."""

    name: str
    when: When
    log: TopicPartition
    nth: int
    survivors: frozenset[str]


ONGOING, PREPARED, COMPLETED = "ongoing", "prepared", "completed"
_UNDECIDED = frozenset({ONGOING})
_EITHER = frozenset({ONGOING, PREPARED})
_DECIDED = frozenset({PREPARED})

POINTS: Final = (
    Point("C0", When.BEFORE, TXN_LOG, 2, _UNDECIDED),
    Point("C1", When.AFTER, TXN_LOG, 2, _UNDECIDED),
    Point("C2", When.SYNCED, TXN_LOG, 2, _UNDECIDED),
    Point("C3", When.BEFORE, A1, 1, _UNDECIDED),
    Point("C4", When.AFTER, B0, 1, _UNDECIDED),
    Point("C5", When.BEFORE, TXN_LOG, 5, _UNDECIDED),
    Point("C6", When.AFTER, TXN_LOG, 5, _EITHER),
    Point("C7", When.SYNCED, TXN_LOG, 5, _DECIDED),
    Point("C8", When.ANSWERED, TXN_LOG, 5, _DECIDED),
    # The markers are written in this order: the group's offsets, a-0, a-1, b-0.
    Point("C9", When.AFTER, TopicPartition("__consumer_offsets", 0), 2, _DECIDED),
    Point("C10-1", When.BEFORE, A0, 2, _DECIDED),
    Point("C10-2", When.BEFORE, A1, 2, _DECIDED),
    Point("C10-3", When.BEFORE, B0, 2, _DECIDED),
    Point("C11", When.SYNCED, B0, 2, _DECIDED),
    Point("C12", When.BEFORE, TXN_LOG, 6, _DECIDED),
    Point("C13", When.AFTER, TXN_LOG, 6, frozenset({PREPARED, COMPLETED})),
    Point("C14", When.SYNCED, TXN_LOG, 6, frozenset({COMPLETED})),
)


@dataclass
class Trap:
    """A trap that calls `spring` once, at its point."""

    point: Point
    flushes: bool
    spring: Callable[[], None]
    appends: int = 0
    is_armed: bool = False

    def _is_there(self, when: When) -> bool:
        wanted = self.point.when
        if wanted is When.SYNCED and not self.flushes:
            wanted = When.AFTER
        return self.is_armed and when is wanted

    def reached(self, when: When, path: str) -> None:
        """Note that an append begins or has ended, or that a sync of the file has ended. Call
        `spring` if this is the point."""
        if not path.startswith(f"{partition_directory(*self.point.log)}/0"):
            return
        if self.is_armed and when is When.BEFORE:
            self.appends += 1
        if self._is_there(when) and self.appends == self.point.nth:
            self.is_armed = False
            self.spring()

    def answered(self) -> None:
        """Note that the response to EndTxn has left. Call `spring` if this is the point."""
        if self._is_there(When.ANSWERED):
            self.is_armed = False
            self.spring()


class TrappedFile(MemoryFile):
    def __init__(self, files: TrappedFiles, path: str) -> None:
        super().__init__(files, path)
        self._disk = files

    def append(self, buffer: Buffer) -> None:
        self._disk.reached(When.BEFORE, self.path)
        super().append(buffer)
        self._disk.reached(When.AFTER, self.path)


class TrappedFiles(MemoryFiles):
    """A disk in memory that reports operations on `.log` files to `trap`."""

    trap: Trap | None = None

    def reached(self, when: When, path: str) -> None:
        if self.trap is not None and path.endswith(".log"):
            self.trap.reached(when, path)

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        super().open(path, create=create)
        return TrappedFile(self, path)

    def sync(self, files: Sequence[File], done: Done) -> None:
        paths = [file.path for file in files]

        def synced(error: StorageError | None) -> None:
            for path in paths:
                self.reached(When.SYNCED, path)
            done(error)

        super().sync(files, synced)
