"""The errors of a log, besides StorageError of the disk."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused


class AppendError(Refused):
    """The batch or marker was refused, and nothing has changed. The client gets `code`."""


class RecordError(msgspec.Struct, frozen=True):
    """A faulty record. Its batch was refused. The fields are the record's index in the batch, and
    the reason (KIP-467)."""

    index: int
    message: str


class InvalidRecords(AppendError):
    """The batch was refused because the topic's settings do not allow some of its records. `errors`
    lists these records in order. The list is empty if there are more than MAX_RECORD_ERRORS."""

    def __init__(self, code: ErrorCode, message: str, errors: Sequence[RecordError]) -> None:
        super().__init__(code, message)
        self.errors = errors


class UnexpectedBatch(Exception):
    """A batch of the leader does not continue the follower's log. No part of the batch is appended
    (Kafka's UnexpectedAppendOffsetException, OffsetsOutOfOrderException)."""


class OffsetOutOfRange(Exception):
    """`offset` is below the start or past the end of the log."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is not in {log_start_offset}..{log_end_offset}")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class CorruptLog(Exception):
    """Bytes that were durable are not a valid batch any more. The partition goes offline."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class InconsistentTopicId(Exception):
    """The directory belongs to another topic of the same name (Kafka's INCONSISTENT_TOPIC_ID)."""

    def __init__(self, directory: str, found: str, expected: str) -> None:
        super().__init__(f"{directory} holds topic id {found}, not {expected}")
        self.directory = directory
        self.found = found
        self.expected = expected
