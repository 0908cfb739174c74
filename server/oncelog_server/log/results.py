"""The results of a log's operations."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from oncelog_server.storage.files import File, StorageError

NO_TIMESTAMP: Final = -1


class Origin(Enum):
    """The source of an append. Sequence numbers of clients are checked. Records of coordinators
    have no sequence numbers."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


# Every append needs this member. `Origin.CLIENT` would take as long as a function call.
CLIENT: Final = Origin.CLIENT


class Appended(msgspec.Struct, gc=False):
    """The offsets of a batch in the log. `duplicate`: the log already had the batch.
    `log_append_time_ms` is NO_TIMESTAMP if the topic keeps the producer's timestamps.
    `log_start_offset` is the log start at the time of the append, as in Kafka's LogAppendInfo."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool
    log_start_offset: int


AHEAD_BYTES: Final = 1 << 20
"""The bytes that a prefetch reads behind its range: the client will probably ask for them next."""


class FileRange(msgspec.Struct, frozen=True):
    """Bytes of a log file, for a read or for sendfile (`file.fileno()`)."""

    file: File
    position: int
    length: int

    def __len__(self) -> int:
        return self.length

    def split(self, size: int) -> tuple[FileRange, FileRange]:
        """Return the first `size` bytes and the rest."""
        return (
            FileRange(self.file, self.position, size),
            FileRange(self.file, self.position + size, self.length - size),
        )

    def is_cached(self) -> bool:
        """Return False if a read would wait for the disk. Raises StorageError."""
        return self.file.is_cached(self.position, self.length)

    def prefetch(self, done: Callable[[], None]) -> None:
        """Read the bytes from the disk outside of the event loop, then call `done`."""
        self.file.prefetch(self.position, self.length + AHEAD_BYTES, done)

    def read(self) -> bytes:
        """Return the bytes. Raises StorageError, also if the file ends within the range: a response
        with fewer bytes than its length field says would shift all later responses."""
        data = self.file.read(self.position, self.length)
        if len(data) != self.length:
            raise StorageError("read", self.file.path, "the file ended early")
        return data


class LogRead(msgspec.Struct, frozen=True):
    """The result of a read: batches from the requested offset on. `records` is None if no batch is
    below the end of the read. `records` is also None if the first batch is larger than the
    `max_bytes` of the read, except in a read of at least one batch. `max_bytes` may cut off the
    last batch.

    All records in `records` have offsets below `end_offset`. So the response needs only the aborted
    transactions with records below `end_offset`.
    """

    records: FileRange | None
    end_offset: int = -1


class Flush(NamedTuple):
    """The files that a flush syncs, and the offset up to which the log is durable afterwards.

    `closed` files do not change any more. `growing` is the active segment. If the active segment
    grows or is closed during the flush, it needs another sync. `truncations` is the number of
    truncations before the flush. If the number differs after the flush, the log was cut, and the
    flush does not cover later appends.
    """

    closed: list[File]
    offset: int
    growing: File | None = None
    truncations: int = 0

    @property
    def files(self) -> list[File]:
        return self.closed if self.growing is None else [*self.closed, self.growing]


class TimestampOffset(NamedTuple):
    """A record that was found by its time, for the response to ListOffsets. `leader_epoch` is -1 if
    the epoch is unknown."""

    timestamp: int
    offset: int
    leader_epoch: int
