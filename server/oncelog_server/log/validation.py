"""Checks of the batch that a client sent (Kafka's UnifiedLog.analyzeAndValidateRecords,
LogValidator).

The header, the count and the CRC are always checked. The records are decoded only if a setting of
the topic requires it: keys of compacted topics, recompression, limits on the age of a record, or
`validate_records`. Otherwise only a reader notices an invalid record.
"""

from __future__ import annotations

from typing import Final

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
    build_batch,
    compute_crc,
    patch_max_timestamp_and_log_append,
    read_header,
    read_records,
)
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import NewRecord, Record
from oncelog_server.log.config import LOG_APPEND_TIME as TOPIC_LOG_APPEND_TIME
from oncelog_server.log.config import PRODUCER, UNLIMITED, LogConfig
from oncelog_server.log.errors import AppendError, InvalidRecords, RecordError

NO_TIMESTAMP: Final = -1
# The maximum size of a decompressed batch is the larger of this number of bytes and
# `max.message.bytes` times this factor. The limit protects the broker from decompression bombs.
_MIN_DECOMPRESSED_LIMIT: Final = 16 * 1024 * 1024
_DECOMPRESSION_FACTOR: Final = 10

# If a batch has more faulty records than this, the response lists none of them. The list could be
# fifty times as large as the batch. librdkafka puts at most this number of records into a batch
# (batch.num.messages).
MAX_RECORD_ERRORS: Final = 10_000
SHOWN_RECORD_ERRORS: Final = 3

_KNOWN_FLAGS: Final = COMPRESSION_MASK | TIMESTAMP_TYPE_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG
_MAX_CODEC: Final = int(max(Compression))
# The attributes that a client may set: a codec and, in a transaction, one flag.
_ATTRIBUTES: Final = frozenset(range(_MAX_CODEC + 1)) | frozenset(
    range(TRANSACTIONAL_FLAG, TRANSACTIONAL_FLAG + _MAX_CODEC + 1)
)
# The bytes that the CRC covers.
_CHECKED: Final = slice(ATTRIBUTES_POSITION, None)
_UNCOMPRESSED: Final = "uncompressed"
_DEFAULT_LEVEL: Final = -1


def decompressed_limit(config: LogConfig) -> int:
    """Return the maximum size of the decompressed records of one batch."""
    return max(config.max_message_bytes * _DECOMPRESSION_FACTOR, _MIN_DECOMPRESSED_LIMIT)


class BatchRules:
    """The checks that a topic's settings require, computed once."""

    __slots__ = ("_after_max_ms", "_before_max_ms", "_codec", "_config", "_keys_required", "_limit",
                 "_partition", "_walks", "log_append_time", "max_bytes", "needs_records",
                 "own_max_bytes", "segment_bytes")  # fmt: skip

    def __init__(self, config: LogConfig, partition: str) -> None:
        """`partition`: the partition's name in error messages, for example `topic-0`."""
        self._config = config
        self._partition = partition
        self.max_bytes = config.max_message_bytes
        self.segment_bytes = config.segment_bytes
        # A batch of at most this size is within both limits.
        self.own_max_bytes = min(self.max_bytes, self.segment_bytes)
        self.log_append_time = config.message_timestamp_type == TOPIC_LOG_APPEND_TIME
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._keys_required = config.is_compacted
        self._codec = _target_codec(config.compression_type)
        self._limit = decompressed_limit(config)
        self._walks = (
            config.validate_records
            or self._keys_required
            or (self._before_max_ms != UNLIMITED and not self.log_append_time)
        )
        # True if a setting needs the records or changes the batch.
        self.needs_records = self._walks or self.log_append_time or self._codec is not None

    def check(
        self, records: bytearray | memoryview, now_ms: int, header: BatchHeader | None = None
    ) -> BatchHeader:
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
            self._examine(records, header, now_ms)
        return header

    def convert(
        self, records: bytearray | memoryview, now_ms: int, header: BatchHeader
    ) -> tuple[BatchHeader, bytearray | memoryview]:
        """Apply the settings that need the records or change the batch. Return the header and the
        bytes to append: `records` itself, or a copy with another compression.

        LogAppendTime is patched in place. Raises InvalidRecords, or AppendError with
        INVALID_RECORD.
        """
        codec = self._codec
        recompresses = codec is not None and codec != header.attributes & COMPRESSION_MASK
        if self._walks or recompresses:
            walked = self._walk(records, header, now_ms)
            if codec is not None and recompresses:
                records = self._recompress(walked, header, codec)
                header = read_header(records)
        if self.log_append_time:
            patch_max_timestamp_and_log_append(records, 0, now_ms)
            header = read_header(records)
        return header, records

    def _examine(self, records: bytearray | memoryview, header: BatchHeader, now_ms: int) -> None:
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
            self._check_latest_timestamp(records, header, now_ms)

    def check_own(self, records: bytearray | memoryview, now_ms: int) -> BatchHeader:
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

    def _check_latest_timestamp(
        self, records: bytearray | memoryview, header: BatchHeader, now_ms: int
    ) -> None:
        latest = header.max_timestamp
        if latest - now_ms > self._after_max_ms:
            # Raises InvalidRecords if records are too new.
            self._walk(records, header, now_ms)
            raise AppendError(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {latest} is more than {self._after_max_ms} ms ahead of {now_ms}",
            )
        if latest < NO_TIMESTAMP or header.base_timestamp < NO_TIMESTAMP:
            raise AppendError(ErrorCode.INVALID_TIMESTAMP, "a timestamp is negative")

    def _walk(
        self, records: bytearray | memoryview, header: BatchHeader, now_ms: int
    ) -> list[Record]:
        try:
            walked = read_records(records, max_bytes=self._limit, check_crc=False)
        except CorruptRecords as error:
            raise AppendError(ErrorCode.INVALID_RECORD, error.reason) from None
        keyless: list[int] = []
        untimely: list[int] = []
        for index, record in enumerate(walked):
            if self._keys_required and record.key is None:
                keyless.append(index)
                continue
            timestamp = record.timestamp
            if self.log_append_time or timestamp == NO_TIMESTAMP:
                continue
            if now_ms - timestamp > self._before_max_ms or timestamp - now_ms > self._after_max_ms:
                untimely.append(index)
        if keyless or untimely:
            raise self._invalid_records(walked, keyless, untimely, now_ms)
        return walked

    def _invalid_records(
        self, walked: list[Record], keyless: list[int], untimely: list[int], now_ms: int
    ) -> InvalidRecords:
        """Return the error with the words of Kafka's LogValidator (KIP-467)."""
        without_key = (
            "Compacted topic cannot accept message without key in topic partition "
            f"{self._partition}"
        )
        within = f"[{now_ms - self._before_max_ms}, {now_ms + self._after_max_ms}]"
        count = len(keyless) + len(untimely)
        named = count if count <= MAX_RECORD_ERRORS else SHOWN_RECORD_ERRORS
        errors = [RecordError(index, without_key) for index in keyless[:named]]
        errors += [
            RecordError(
                index,
                f"Timestamp {walked[index].timestamp} of message with offset "
                f"{walked[index].offset} is out of range. The timestamp should be within {within}",
            )
            for index in untimely[:named]
        ]
        errors.sort(key=lambda error: error.index)
        if untimely:
            code = ErrorCode.INVALID_TIMESTAMP
            message = "One or more records have been rejected due to invalid timestamp"
        else:
            code = ErrorCode.INVALID_RECORD
            shown = ", ".join(
                f"RecordError(batchIndex={error.index}, message='{error.message}')"
                for error in errors[:SHOWN_RECORD_ERRORS]
            )
            message = (
                f"One or more records have been rejected due to {count} record errors in total, "
                f"and only showing the first three errors at most: [{shown}]"
            )
        return InvalidRecords(code, message, errors if count == named else ())

    def _recompress(
        self, walked: list[Record], header: BatchHeader, codec: Compression
    ) -> bytearray:
        """Return the same batch in the topic's codec (`compression.type`)."""
        return build_batch(
            [
                NewRecord(record.timestamp, record.key, record.value, record.headers)
                for record in walked
            ],
            compression=codec,
            level=_level(self._config, codec),
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
        )


def _no_batch(records: bytearray | memoryview) -> AppendError:
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


def _target_codec(compression_type: str) -> Compression | None:
    """Return the codec, None to keep the producer's codec. Raises ValueError for an unknown
    name."""
    if compression_type == PRODUCER:
        return None
    if compression_type == _UNCOMPRESSED:
        return Compression.NONE
    for codec in Compression:
        if codec.kafka_name == compression_type:
            return codec
    raise ValueError(f"compression.type {compression_type!r} is not known")


def _level(config: LogConfig, codec: Compression) -> int | None:
    level = {
        Compression.GZIP: config.compression_gzip_level,
        Compression.LZ4: config.compression_lz4_level,
        Compression.ZSTD: config.compression_zstd_level,
    }.get(codec, _DEFAULT_LEVEL)
    return None if level == _DEFAULT_LEVEL else level
