"""A slow and literal reader of record batches (KIP-98, magic 2).

All integers are big-endian. Varints are zigzag. Compression is none or gzip.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from crc32c import crc32c

HEADER_BYTES = 61
ABORT, COMMIT = 0, 1
# Maximum number of decoded batches in a cache. Each check of a log reads all its batches, and most
# of them have not changed since the last check.
REMEMBERED_BATCHES = 50_000


class BrokenBatch(ValueError):
    """Invalid bytes at a position in a file where a batch should be."""


@dataclass(frozen=True, slots=True)
class Record:
    """`timestamp` in ms since 1970."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch with its records. `position` and `size` are in bytes of the file."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    max_timestamp: int
    producer_id: int
    epoch: int
    base_sequence: int
    records: tuple[Record, ...] = field(repr=False)

    @property
    def delta(self) -> int:
        return self.last_offset - self.base_offset

    @property
    def last_sequence(self) -> int:
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.delta) % 2**31

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & 16)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & 32)

    @property
    def marker(self) -> tuple[bool, int] | None:
        """Return the marker's result (True for a commit) and its coordinator epoch. Return None for
        any other batch, and for a marker without its record. Compaction keeps the empty batch of a
        marker as long as the epoch of its producer is needed."""
        if not self.is_control or not self.records:
            return None
        (record,) = self.records
        _, kind = struct.unpack_from(">hh", record.key or b"")
        if kind not in (ABORT, COMMIT):
            return None
        _, coordinator_epoch = struct.unpack_from(">hi", record.value or b"")
        return kind == COMMIT, coordinator_epoch


def read_batches(data: bytes) -> list[Batch]:
    """Return all batches of a `.log` file. Raises BrokenBatch if one is incomplete or invalid."""
    batches = []
    position = 0
    while position < len(data):
        batch = read_batch(data, position)
        batches.append(batch)
        position += batch.size
    return batches


def read_batch(data: bytes, position: int) -> Batch:
    if len(data) - position < HEADER_BYTES:
        raise BrokenBatch(f"{len(data) - position} bytes at {position}")
    length, _, magic = struct.unpack_from(">iib", data, position + 8)
    size = 12 + length
    if magic != 2 or size < HEADER_BYTES or position + size > len(data):
        raise BrokenBatch(f"magic {magic}, {size} bytes at {position}")
    return _read(data[position : position + size], position)


@lru_cache(REMEMBERED_BATCHES)
def _read(data: bytes, position: int) -> Batch:
    """Return the batch with these bytes at `position` of the file. The result is cached by bytes
    and position."""
    size = len(data)
    base_offset, _, leader_epoch, _, crc = struct.unpack_from(">qiibI", data)
    if crc32c(data[21:]) != crc:
        raise BrokenBatch(f"the CRC at {position}")
    attributes, delta, base_timestamp, max_timestamp, producer_id, epoch, sequence, count = (
        struct.unpack_from(">hiqqqhii", data, 21)
    )
    body = data[HEADER_BYTES:]
    if attributes & 7:
        if attributes & 7 != 1:
            raise BrokenBatch(f"compression {attributes & 7} at {position}")
        body = zlib.decompress(body, 31)
    append_time = max_timestamp if attributes & 8 else None
    records = tuple(_records(body, count, base_offset, base_timestamp, append_time))
    return Batch(
        position=position,
        size=size,
        base_offset=base_offset,
        last_offset=base_offset + delta,
        leader_epoch=leader_epoch,
        attributes=attributes,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        epoch=epoch,
        base_sequence=sequence,
        records=records,
    )


def _records(
    body: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> Iterator[Record]:
    at = 0
    for _ in range(count):
        length, at = _varint(body, at)
        end = at + length
        at += 1  # attributes, unused
        timestamp_delta, at = _varint(body, at)
        offset_delta, at = _varint(body, at)
        key, at = _bytes(body, at)
        value, at = _bytes(body, at)
        headers, at = _varint(body, at)
        for _ in range(headers):
            _, at = _bytes(body, at)
            _, at = _bytes(body, at)
        if at != end:
            raise BrokenBatch(f"a record ends at {at}, not {end}")
        timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
        yield Record(base_offset + offset_delta, timestamp, key, value)
    if at != len(body):
        raise BrokenBatch(f"{len(body) - at} bytes after the last record")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(data, at)
    if length < 0:
        return None, at
    return data[at : at + length], at + length
