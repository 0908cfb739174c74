"""What a log answers with."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

import msgspec

from oncelog_server.storage.files import File

NO_TIMESTAMP: Final = -1


class Origin(Enum):
    """The source of an append: clients' sequences are checked, coordinators' records have none."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class Appended(msgspec.Struct):
    """Where a batch is in the log. `duplicate`: it was there already. `log_append_time_ms` is
    NO_TIMESTAMP where the topic keeps the producer's timestamps. `log_start_offset` is that at the
    append, as in Kafka's LogAppendInfo."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool
    position: int
    size: int
    log_start_offset: int


class FileRange(msgspec.Struct, frozen=True):
    """Bytes of a log file, to be read or handed to sendfile with `file.fileno()`."""

    file: File
    position: int
    length: int

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """Raises StorageError."""
        return self.file.read(self.position, self.length)


class LogRead(msgspec.Struct, frozen=True):
    """Batches from the one with the offset asked for; None if there is nothing below the limit, or
    less than one whole batch allowed. The last batch may be cut off by `max_bytes`.

    No record in `records` has an offset of `end_offset` or above: so far aborted transactions
    matter.
    """

    records: FileRange | None
    end_offset: int = -1


class Flush(NamedTuple):
    """What is being made durable, and up to which offset the log then is.

    Files that are `closed` do not change any more. `growing`, the log's end, may have got more
    since, and may be closed by now: its next sync must come all the same. `truncations` of the log
    before it began: one that is cut meanwhile says nothing of what is appended after.
    """

    closed: list[File]
    offset: int
    growing: File | None = None
    truncations: int = 0

    @property
    def files(self) -> list[File]:
        return self.closed if self.growing is None else [*self.closed, self.growing]


class TimestampOffset(NamedTuple):
    """A record found by its time: ListOffsets' answer. `leader_epoch` is -1 if not known."""

    timestamp: int
    offset: int
    leader_epoch: int
