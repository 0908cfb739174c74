"""Rules for the records of a client's batch (Kafka's LogValidator).

The records are decoded only if a setting of the topic requires it: keys of compacted topics,
recompression, limits on the age of a record, or `validate_records`. Otherwise only a reader notices
an invalid record. A batch may have very many records, so all work is done in steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeAlias

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    BatchHeader,
    record_bytes,
    write_header,
)
from oncelog_protocol.records.compression import Compression, compress_in_parts
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import INT64, Record, decode_in_parts
from oncelog_server.log.config import LOG_APPEND_TIME, PRODUCER, UNLIMITED, LogConfig
from oncelog_server.log.errors import AppendError, InvalidRecords, RecordError
from oncelog_server.slices import Steps

NO_TIMESTAMP: Final = -1
# Number of records in one step. A step takes less than 1 ms.
STEP_RECORDS: Final = 256
# The maximum size of a decompressed batch is the larger of this number of bytes and
# `max.message.bytes` times this factor. The limit protects the broker from decompression bombs.
_MIN_DECOMPRESSED_LIMIT: Final = 16 * 1024 * 1024
_DECOMPRESSION_FACTOR: Final = 10

# If a batch has more faulty records than this, the response lists none of them. The list could be
# fifty times as large as the batch. librdkafka puts at most this number of records into a batch
# (batch.num.messages).
MAX_RECORD_ERRORS: Final = 10_000
SHOWN_RECORD_ERRORS: Final = 3

_UNCOMPRESSED: Final = "uncompressed"
_DEFAULT_LEVEL: Final = -1

Batch: TypeAlias = bytearray | memoryview


def decompressed_limit(config: LogConfig) -> int:
    """Return the maximum size of the decompressed records of one batch."""
    return max(config.max_message_bytes * _DECOMPRESSION_FACTOR, _MIN_DECOMPRESSED_LIMIT)


class RecordRules:
    """The rules of a topic's settings for records, computed once."""

    __slots__ = ("_after_max_ms", "_before_max_ms", "_codec", "_keys_required", "_level", "_limit",
                 "_log_append_time", "_partition", "_walks", "are_any")  # fmt: skip

    def __init__(self, config: LogConfig, partition: str) -> None:
        """`partition`: the partition's name in error messages, for example `topic-0`. Raises
        ValueError for an unknown `compression.type`."""
        self._partition = partition
        self._log_append_time = config.message_timestamp_type == LOG_APPEND_TIME
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._keys_required = config.is_compacted
        self._codec = _target_codec(config.compression_type)
        self._level = None if self._codec is None else _level(config, self._codec)
        self._limit = decompressed_limit(config)
        self._walks = (
            config.validate_records
            or self._keys_required
            or (self._before_max_ms != UNLIMITED and not self._log_append_time)
        )
        # True if a setting may need the records.
        self.are_any = self._walks or self._codec is not None

    def concern(self, header: BatchHeader) -> bool:
        """Return True if a setting needs the records of this batch."""
        return self._walks or self._new_codec(header) is not None

    def _new_codec(self, header: BatchHeader) -> Compression | None:
        """Return the codec that the batch must get, None if it keeps its own."""
        codec = self._codec
        return None if codec == header.attributes & COMPRESSION_MASK else codec

    def convert(self, records: Batch, header: BatchHeader, now_ms: int) -> Steps[Batch]:
        """Check the records of a batch that these rules concern, and compress it with the topic's
        codec (`compression.type`). Return `records` itself, or a copy with another codec. Raises
        InvalidRecords, or AppendError with INVALID_RECORD."""
        data, max_timestamp = yield from self.walk(records, header, now_ms)
        codec = self._new_codec(header)
        if codec is None:
            return records
        converted = bytearray(HEADER_SIZE)
        converted += yield from compress_in_parts(codec, data, self._level)
        attributes = header.attributes & ~COMPRESSION_MASK | codec
        size = len(converted) - LENGTH_OVERHEAD
        new = replace(header, attributes=attributes, batch_length=size, max_timestamp=max_timestamp)
        write_header(converted, new)
        return converted

    def walk(self, records: Batch, header: BatchHeader, now_ms: int) -> Steps[tuple[bytes, int]]:
        """Check the records. Return their bytes, decompressed, and their latest timestamp. Raises
        the errors of `convert`."""
        faults = _Faults(self._partition, now_ms - self._before_max_ms, now_ms + self._after_max_ms)
        earliest, latest = faults.earliest, faults.latest
        if self._log_append_time:
            earliest, latest = -INT64, INT64
        keys_required, count, max_timestamp = self._keys_required, 0, NO_TIMESTAMP
        try:
            data = record_bytes(records, 0, header, self._limit)
            yield
            for part in decode_in_parts(
                data, header.records_count, STEP_RECORDS, base_offset=header.base_offset,
                last_offset_delta=header.last_offset_delta, base_timestamp=header.base_timestamp,
            ):  # fmt: skip
                for index, record in enumerate(part, count):
                    timestamp = record.timestamp
                    if keys_required and record.key is None:
                        faults.add_keyless(index)
                    elif not earliest <= timestamp <= latest and timestamp != NO_TIMESTAMP:
                        faults.add_untimely(index, record)
                    elif timestamp > max_timestamp:
                        max_timestamp = timestamp
                count += len(part)
                yield
        except CorruptRecords as error:
            raise AppendError(ErrorCode.INVALID_RECORD, error.reason) from None
        if faults.count:
            raise faults.error()
        return data, max_timestamp


class _Faults:
    """The faulty records of a batch. `earliest` and `latest`: the range of valid timestamps."""

    def __init__(self, partition: str, earliest: int, latest: int) -> None:
        self.earliest = earliest
        self.latest = latest
        self.count = 0
        self._partition = partition
        self._are_untimely = False
        # At most MAX_RECORD_ERRORS of them, in order.
        self._errors: list[RecordError] = []

    def add_keyless(self, index: int) -> None:
        self._add(
            index,
            "Compacted topic cannot accept message without key in topic partition "
            f"{self._partition}",
        )

    def add_untimely(self, index: int, record: Record) -> None:
        self._are_untimely = True
        self._add(
            index,
            f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range."
            f" The timestamp should be within [{self.earliest}, {self.latest}]",
        )

    def _add(self, index: int, message: str) -> None:
        self.count += 1
        if self.count <= MAX_RECORD_ERRORS:
            self._errors.append(RecordError(index, message))

    def error(self) -> InvalidRecords:
        """Return the error with the words of Kafka's LogValidator (KIP-467)."""
        if self._are_untimely:
            code = ErrorCode.INVALID_TIMESTAMP
            message = "One or more records have been rejected due to invalid timestamp"
        else:
            code = ErrorCode.INVALID_RECORD
            shown = ", ".join(
                f"RecordError(batchIndex={error.index}, message='{error.message}')"
                for error in self._errors[:SHOWN_RECORD_ERRORS]
            )
            message = (
                f"One or more records have been rejected due to {self.count} record errors in "
                f"total, and only showing the first three errors at most: [{shown}]"
            )
        return InvalidRecords(
            code, message, self._errors if self.count <= MAX_RECORD_ERRORS else ()
        )


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
