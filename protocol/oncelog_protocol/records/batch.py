"""Record batches of format v2: the header, and a batch as a whole (KIP-98, "RecordBatch").

A broker reads headers and patches them in place. Only clients and coordinators decode records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from struct import Struct
from typing import Final, TypeAlias

from oncelog_protocol.checksum import crc32c

from .compression import Compression, compress, decompress
from .errors import CorruptRecords, UnsupportedMagic
from .record import (
    Bytes,
    EncodedRecords,
    NewRecord,
    Record,
    decode_records,
    encode_records,
)
from .zigzag import SMALL, SMALL_LIMIT, encode_varint

Writable: TypeAlias = bytearray | memoryview

HEADER_SIZE: Final = 61
MAGIC: Final = 2
CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

# The bytes of base offset and batch length. `batch_length` does not count them.
LENGTH_OVERHEAD: Final = 12
LEADER_EPOCH_POSITION: Final = 12
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
# The CRC covers everything from here on, so base offset and leader epoch may be patched freely.
ATTRIBUTES_POSITION: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

_HEADER: Final = Struct(">qiibIhiqqqhii")
_unpack_header: Final = _HEADER.unpack_from
_new_object: Final = object.__new__
_PREFIX: Final = Struct(">qi")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_UINT32: Final = Struct(">I")
_INT16: Final = Struct(">h")
_COMPRESSIONS: Final = tuple(Compression)
_MAX_INT32: Final = (1 << 31) - 1
_ROOM_FOR_HEADER: Final = bytes(HEADER_SIZE)
# The first record's attributes, timestamp delta and offset delta, each 0.
_NO_DELTAS: Final = bytes(3)


@dataclass(slots=True)
class BatchHeader:
    """The fields of the 61 bytes before the records, in order. Timestamps are in ms since 1970.
    Nothing changes a header: `dataclasses.replace` makes another one. The class is not frozen,
    because `read_header` would then take four times as long."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """The size of the batch in bytes, with the header."""
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number, modulo 2^31. NO_SEQUENCE if the batch has none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return add_to_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> Compression:
        """The codec of the batch. Raises CorruptRecords for an unknown codec number."""
        number = self.attributes & COMPRESSION_MASK
        if number >= len(_COMPRESSIONS):
            raise CorruptRecords(f"unknown compression codec {number}")
        return _COMPRESSIONS[number]

    @property
    def timestamp_type(self) -> int:
        """CREATE_TIME or LOG_APPEND_TIME."""
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_FLAG else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """Return the time from which compaction may drop this batch's tombstones (KIP-534), None if
        not set yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None


_fields_of: Final = attrgetter(*(field.name for field in fields(BatchHeader)))


def add_to_sequence(sequence: int, count: int) -> int:
    """Return `sequence` + `count`; 0 follows 2^31 - 1 (Kafka's DefaultRecordBatch)."""
    return (sequence + count) & _MAX_INT32


def read_header(buffer: Bytes, position: int = 0) -> BatchHeader:
    """Return the header at `position`. This function only checks that 61 bytes are there, so the
    caller checks `magic` before it uses other fields. If bytes are missing, raises
    UnsupportedMagic for another `magic`, else CorruptRecords.
    """
    header = _new_object(BatchHeader)  # set field by field: faster than a call of the class
    try:
        (
            header.base_offset, header.batch_length, header.partition_leader_epoch, header.magic,
            header.crc, header.attributes, header.last_offset_delta, header.base_timestamp,
            header.max_timestamp, header.producer_id, header.producer_epoch, header.base_sequence,
            header.records_count,
        ) = _unpack_header(buffer, position)  # fmt: skip
    except struct.error:
        left = len(buffer) - position
        if left > MAGIC_POSITION and buffer[position + MAGIC_POSITION] != MAGIC:
            raise UnsupportedMagic(buffer[position + MAGIC_POSITION]) from None
        raise CorruptRecords(f"{left} bytes are less than a batch header") from None
    return header


def split_batches(
    buffer: Bytes, *, allow_partial: bool = False
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each batch in `buffer`. Raises UnsupportedMagic and
    CorruptRecords. `allow_partial`: stop before an incomplete last batch, as in a Fetch response,
    instead of raising.
    """
    position, end = 0, len(buffer)
    while position < end:
        left = end - position
        if (
            left < LENGTH_OVERHEAD
            or left < _PREFIX.unpack_from(buffer, position)[1] + LENGTH_OVERHEAD
        ):
            if allow_partial:
                return
            raise CorruptRecords(f"the batch at {position} is cut off")
        header = read_header(buffer, position)
        if header.magic != MAGIC:
            raise UnsupportedMagic(header.magic)
        if header.size < HEADER_SIZE:
            raise CorruptRecords(f"the batch at {position} has size {header.size}")
        yield position, header
        position += header.size


def compute_crc(buffer: Bytes, position: int, size: int) -> int:
    """Return the CRC32C of the batch of `size` bytes at `position`, from the attributes to the end
    of the batch."""
    return crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : position + size])


def patch_offsets(buffer: Writable, position: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at `position` its place in the log. The CRC does not cover these fields."""
    _INT64.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + LEADER_EPOCH_POSITION, leader_epoch)


# The same as `patch_offsets`, for a caller that has the batch length: (buffer, position, base
# offset, batch length, leader epoch). This is the struct's method itself. It runs for every batch,
# and a Python function around it would take time.
patch_place: Final = Struct(">qii").pack_into


def patch_max_timestamp_and_log_append(buffer: Writable, position: int, timestamp_ms: int) -> None:
    """Give the batch the timestamp type LogAppendTime and this maximum timestamp (KIP-32), and
    compute its CRC again."""
    header = read_header(buffer, position)
    attributes = header.attributes | TIMESTAMP_TYPE_FLAG
    _INT16.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes)
    _INT64.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, timestamp_ms)
    crc = compute_crc(buffer, position, header.size)
    _UINT32.pack_into(buffer, position + CRC_POSITION, crc)


def write_header(batch: Writable, header: BatchHeader) -> None:
    """Write `header` before the records that are already in `batch`, with the CRC of both."""
    _HEADER.pack_into(batch, 0, *_fields_of(header))
    _UINT32.pack_into(batch, CRC_POSITION, compute_crc(batch, 0, len(batch)))


def build_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    timestamp_type: int = CREATE_TIME,
) -> bytearray:
    """Return a batch of `records`, with consecutive offsets from `base_offset` on. Raises
    ValueError if there are no records, and for numbers that do not fit their field.
    """
    parts: list[Bytes] = [_ROOM_FOR_HEADER]
    count, base_timestamp, max_timestamp = encode_records(records, parts)
    if not count:
        raise ValueError("a batch holds at least one record")
    return _assemble(
        parts, count, base_timestamp, max_timestamp,
        base_offset, leader_epoch, compression, level,
        producer_id, producer_epoch, base_sequence,
        (TIMESTAMP_TYPE_FLAG if timestamp_type == LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_FLAG if is_transactional else 0)
        | (CONTROL_FLAG if is_control else 0),
    )  # fmt: skip


def build_encoded_batch(
    records: EncodedRecords,
    *,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> bytearray:
    """Return the same as `build_batch`, from encoded records."""
    body, count, base_timestamp, max_timestamp = records
    return _assemble(
        [_ROOM_FOR_HEADER, body], count, base_timestamp, max_timestamp,
        0, -1, compression, level,
        producer_id, producer_epoch, base_sequence,
        TRANSACTIONAL_FLAG if is_transactional else 0,
    )  # fmt: skip


def _assemble(
    parts: list[Bytes],
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    base_offset: int,
    leader_epoch: int,
    compression: Compression,
    level: int | None,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    flags: int,
) -> bytearray:
    """Return the batch. The first of `parts` is the space for the header."""
    if compression != Compression.NONE:
        parts = [_ROOM_FOR_HEADER, compress(compression, b"".join(parts[1:]), level)]
    batch = bytearray().join(parts)
    try:
        _HEADER.pack_into(
            batch, 0,
            base_offset, len(batch) - LENGTH_OVERHEAD, leader_epoch, MAGIC, 0,
            compression | flags, count - 1, base_timestamp, max_timestamp,
            producer_id, producer_epoch, base_sequence, count,
        )  # fmt: skip
    except struct.error as error:
        raise ValueError(f"a field of the batch header is out of range: {error}") from None
    _UINT32.pack_into(batch, CRC_POSITION, compute_crc(batch, 0, len(batch)))
    return batch


def build_single_record_batch(
    timestamp_ms: int,
    key: bytes,
    value: bytes | None,
    *,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> bytearray:
    """Return an uncompressed batch of one record without headers and sequence number: a marker, or
    a record of a coordinator. `build_batch` takes three times as long. `attributes` are those of
    the batch."""
    size = len(value) if value is not None else -1
    body = b"".join((
        _NO_DELTAS,
        SMALL[len(key)] if len(key) < SMALL_LIMIT else encode_varint(len(key)),
        key,
        SMALL[size] if 0 <= size < SMALL_LIMIT else encode_varint(size),
        value or b"",
        b"\0",
    ))  # fmt: skip
    size = len(body)
    prefix = SMALL[size] if size < SMALL_LIMIT else encode_varint(size)
    size += len(prefix) + HEADER_SIZE
    batch = bytearray().join((
        _HEADER.pack(
            0, size - LENGTH_OVERHEAD, -1, MAGIC, 0, attributes, 0, timestamp_ms, timestamp_ms,
            producer_id, producer_epoch, NO_SEQUENCE, 1,
        ),
        prefix,
        body,
    ))  # fmt: skip
    _UINT32.pack_into(batch, CRC_POSITION, crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))
    return batch


def read_records(
    buffer: Bytes, position: int = 0, *, max_bytes: int, check_crc: bool = True
) -> list[Record]:
    """Return the records of the batch at `position`; bytes after the batch are ignored.

    `max_bytes`: maximum size of the decompressed records. With LogAppendTime every record has the
    batch's timestamp. Raises UnsupportedMagic and CorruptRecords.
    """
    header = read_header(buffer, position)
    _check_size(buffer, position, header)
    size = header.size
    if check_crc and (crc := compute_crc(buffer, position, size)) != header.crc:
        raise CorruptRecords(f"the CRC is {crc}, the header says {header.crc}")
    if not header.records_count and size == HEADER_SIZE:
        return []  # compaction leaves an empty batch to keep the producer's last sequence number
    records = decode_records(
        record_bytes(buffer, position, header, max_bytes),
        header.records_count,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
    )
    if header.attributes & TIMESTAMP_TYPE_FLAG:
        timestamp = header.max_timestamp
        return [record._replace(timestamp=timestamp) for record in records]
    return records


def record_bytes(buffer: Bytes, position: int, header: BatchHeader, max_bytes: int) -> bytes:
    """Return the encoded records of the batch at `position`, decompressed. `header` is the batch's,
    and `max_bytes` the maximum size of the result. Raises UnsupportedMagic and CorruptRecords."""
    _check_size(buffer, position, header)
    data = memoryview(buffer)[position + HEADER_SIZE : position + header.size]
    compression = header.compression
    if compression == Compression.NONE:
        return bytes(data)
    return decompress(compression, data, max_bytes)


def _check_size(buffer: Bytes, position: int, header: BatchHeader) -> None:
    if header.magic != MAGIC:
        raise UnsupportedMagic(header.magic)
    left = len(buffer) - position
    if not HEADER_SIZE <= header.size <= left:
        raise CorruptRecords(f"the batch has size {header.size}, only {left} bytes are there")
