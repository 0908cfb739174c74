"""Checks of the batch that a client sent (Kafka's UnifiedLog.analyzeAndValidateRecords,
LogValidator).

The header, the count and the CRC are always checked. `record_rules.py` has the rules that need the
records.
"""

from __future__ import annotations

from typing import Final

import msgspec

from oncelog_protocol.checksum import crc32c
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_POSITION,
    NO_PRODUCER_ID,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    compute_crc,
    patch_max_timestamp_and_log_append,
    read_header,
)
from oncelog_protocol.records.compression import Compression
from oncelog_server.log.config import LOG_APPEND_TIME as TOPIC_LOG_APPEND_TIME
from oncelog_server.log.config import LogConfig
from oncelog_server.log.errors import AppendError
from oncelog_server.log.record_rules import NO_TIMESTAMP, STEP_RECORDS, Batch, RecordRules
from oncelog_server.slices import Steps, at_its_end

_KNOWN_FLAGS: Final = COMPRESSION_MASK | TIMESTAMP_TYPE_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG
_MAX_CODEC: Final = int(max(Compression))
# The attributes that a client may set: a codec and, in a transaction, one flag.
_ATTRIBUTES: Final = frozenset(range(_MAX_CODEC + 1)) | frozenset(
    range(TRANSACTIONAL_FLAG, TRANSACTIONAL_FLAG + _MAX_CODEC + 1)
)
# The bytes that the CRC covers.
_CHECKED: Final = slice(ATTRIBUTES_POSITION, None)


class PreparedBatch(msgspec.Struct, frozen=True):
    """A batch after `BatchRules.prepare` with `rules`. Either `error`, the error of the first rule
    that the batch breaks, or `header` and `records` for the log."""

    rules: BatchRules
    header: BatchHeader
    records: Batch
    error: AppendError | None = None


class BatchRules:
    """The checks that a topic's settings require, computed once."""

    __slots__ = ("_after_max_ms", "_partition", "_records", "log_append_time", "max_bytes",
                 "needs_records", "own_max_bytes", "segment_bytes")  # fmt: skip

    def __init__(self, config: LogConfig, partition: str) -> None:
        """`partition`: the partition's name in error messages, for example `topic-0`."""
        self._partition = partition
        self.max_bytes = config.max_message_bytes
        self.segment_bytes = config.segment_bytes
        # A batch of at most this size is within both limits.
        self.own_max_bytes = min(self.max_bytes, self.segment_bytes)
        self.log_append_time = config.message_timestamp_type == TOPIC_LOG_APPEND_TIME
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._records = RecordRules(config, partition)
        # True if a setting needs the records or changes the batch.
        self.needs_records = self._records.are_any or self.log_append_time

    def is_slow(self, header: BatchHeader, now_ms: int) -> bool:
        """Return True if `check` and `convert` would read so many records of the batch that
        `prepare` must do it in steps."""
        return header.records_count > STEP_RECORDS and (
            self._records.concern(header) or self._is_too_new(header, now_ms)
        )

    def prepare(self, records: Batch, now_ms: int, header: BatchHeader) -> Steps[PreparedBatch]:
        """Do the work of `check` and `convert` in steps, before the batch is appended. The result
        belongs to `records`, which must not change meanwhile."""
        try:
            yield from self._examine(records, header, now_ms)
            if self._records.concern(header):
                records = yield from self._records.convert(records, header, now_ms)
                self._check_size(len(records))
        except AppendError as error:
            return PreparedBatch(self, header, records, error)
        return PreparedBatch(self, read_header(records), records)

    def take(self, prepared: PreparedBatch, now_ms: int) -> tuple[BatchHeader, Batch]:
        """Return the same as `convert`, for a batch that was prepared with these rules. Raises the
        errors of `check` and `convert`."""
        if prepared.error is not None:
            raise prepared.error
        return self._stamp(prepared.records, now_ms, prepared.header)

    def check(self, records: Batch, now_ms: int, header: BatchHeader | None = None) -> BatchHeader:
        """Check a client's batch, but not its records. Return its header. `header`: the header of
        `records`, if the caller has read it. If `needs_records`, call `convert` afterwards.

        Raises InvalidRecords, or AppendError with MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
        CORRUPT_MESSAGE, INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE or INVALID_TIMESTAMP.
        """
        if header is None:
            if len(records) < HEADER_SIZE:
                raise _no_batch(records)
            header = read_header(records)
        attributes = header.attributes
        # Nearly every batch passes this test of all rules. Any other batch is examined rule by
        # rule.
        if not (
            header.magic == MAGIC
            and header.batch_length + LENGTH_OVERHEAD == len(records) <= self.own_max_bytes
            and attributes in _ATTRIBUTES
            and 0 < header.records_count == header.last_offset_delta + 1
            and header.base_offset == 0
            and (
                header.producer_epoch >= 0 <= header.base_sequence
                if header.producer_id > NO_PRODUCER_ID
                else not attributes & TRANSACTIONAL_FLAG
            )
            and header.base_timestamp >= NO_TIMESTAMP <= header.max_timestamp
            and header.max_timestamp - now_ms <= self._after_max_ms
            and crc32c(records[_CHECKED]) == header.crc
        ):
            at_its_end(self._examine(records, header, now_ms))
        return header

    def convert(
        self, records: Batch, now_ms: int, header: BatchHeader
    ) -> tuple[BatchHeader, Batch]:
        """Apply the settings that need the records or change the batch. Return the header and the
        bytes to append: `records` itself, or a copy with another compression.

        LogAppendTime is patched in place. Raises InvalidRecords, or AppendError with
        INVALID_RECORD, MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE: with another compression the
        batch has another size (UnifiedLog.append).
        """
        if self._records.concern(header):
            records = at_its_end(self._records.convert(records, header, now_ms))
            self._check_size(len(records))
            header = read_header(records)
        return self._stamp(records, now_ms, header)

    def _stamp(self, records: Batch, now_ms: int, header: BatchHeader) -> tuple[BatchHeader, Batch]:
        if self.log_append_time:
            patch_max_timestamp_and_log_append(records, 0, now_ms)
            header = read_header(records)
        return header, records

    def _examine(self, records: Batch, header: BatchHeader, now_ms: int) -> Steps[None]:
        """Raise the error of the first rule that the batch breaks."""
        _check_framing(header, len(records))
        self._check_size(len(records))
        if compute_crc(records, 0, len(records)) != header.crc:
            raise AppendError(ErrorCode.CORRUPT_MESSAGE, "the CRC of the batch is wrong")
        _check_fields(header)
        if header.base_offset != 0:
            raise _invalid(
                "The baseOffset of the record batch in the append to"
                f" {self._partition} should be 0, but it is {header.base_offset}"
            )
        if not self.log_append_time:
            yield from self._check_latest_timestamp(records, header, now_ms)

    def check_own(self, records: Batch, now_ms: int) -> BatchHeader:
        """Check the size of a batch that this broker has just made. Nothing else can be wrong.
        Return the batch's header. LogAppendTime is patched in place. Raises AppendError with
        MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE."""
        self._check_size(len(records))
        if self.log_append_time:
            patch_max_timestamp_and_log_append(records, 0, now_ms)
        return read_header(records)

    def _check_size(self, size: int) -> None:
        if size > self.max_bytes:
            raise AppendError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {size} bytes; at most {self.max_bytes} bytes are allowed",
            )
        if size > self.segment_bytes:
            raise AppendError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a batch of {size} bytes is larger than a segment of {self.segment_bytes} bytes",
            )

    def _is_too_new(self, header: BatchHeader, now_ms: int) -> bool:
        return header.max_timestamp - now_ms > self._after_max_ms

    def _check_latest_timestamp(
        self, records: Batch, header: BatchHeader, now_ms: int
    ) -> Steps[None]:
        latest = header.max_timestamp
        if self._is_too_new(header, now_ms):
            # Raises InvalidRecords if records are too new.
            yield from self._records.walk(records, header, now_ms)
            raise AppendError(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {latest} is more than {self._after_max_ms} ms ahead of {now_ms}",
            )
        if latest < NO_TIMESTAMP or header.base_timestamp < NO_TIMESTAMP:
            raise AppendError(ErrorCode.INVALID_TIMESTAMP, "a timestamp is negative")


def _no_batch(records: Batch) -> AppendError:
    """Return the error for fewer bytes than a header has."""
    if len(records) > MAGIC_POSITION and records[MAGIC_POSITION] < MAGIC:
        return _invalid(f"message format v{records[MAGIC_POSITION]} is not supported")
    return _invalid("no record batch at all")


def _check_framing(header: BatchHeader, there: int) -> None:
    """Raise AppendError if the size in the header is not `there` bytes, or the format is
    unsupported."""
    if header.magic != MAGIC:
        if 0 <= header.magic < MAGIC:
            raise _invalid(f"message format v{header.magic} is not supported")
        raise AppendError(ErrorCode.CORRUPT_MESSAGE, f"unknown message format v{header.magic}")
    size = header.batch_length + LENGTH_OVERHEAD
    if size < HEADER_SIZE:
        raise AppendError(
            ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes is smaller than a batch header"
        )
    if size != there:
        raise _invalid(f"expected one batch of {size} bytes, got {there} bytes")


def _check_fields(header: BatchHeader) -> None:
    attributes = header.attributes
    if header.records_count <= 0 or header.records_count != header.last_offset_delta + 1:
        raise _invalid(
            f"the header counts {header.records_count} records, and the last offset delta is"
            f" {header.last_offset_delta}"
        )
    if attributes & COMPRESSION_MASK > _MAX_CODEC:
        raise AppendError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"compression codec {attributes & COMPRESSION_MASK} is not known",
        )
    if attributes & ~_KNOWN_FLAGS:
        raise _invalid(f"unknown attributes {attributes:#x}")
    if header.producer_id > NO_PRODUCER_ID:
        if header.producer_epoch < 0 or header.base_sequence < 0:
            raise _invalid(
                f"producer {header.producer_id} sent epoch {header.producer_epoch} and sequence"
                f" {header.base_sequence}; neither may be negative"
            )
    elif attributes & TRANSACTIONAL_FLAG:
        raise _invalid("a transactional batch without a producer id")
    if attributes & CONTROL_FLAG:
        raise _invalid("clients do not write control records")
    if header.timestamp_type == LOG_APPEND_TIME:
        raise AppendError(
            ErrorCode.INVALID_TIMESTAMP, "only the broker sets the type LogAppendTime"
        )


def _invalid(message: str) -> AppendError:
    return AppendError(ErrorCode.INVALID_RECORD, message)
