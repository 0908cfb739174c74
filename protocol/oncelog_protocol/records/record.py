"""A record in a batch (KIP-98, "Message Format"), and the loops that write and read records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from .errors import CorruptRecords
from .zigzag import NULL, SMALL, SMALL_LIMIT, encode_varint, read_varint, read_zigzag

Bytes: TypeAlias = bytes | bytearray | memoryview
Headers: TypeAlias = Sequence[tuple[str, Bytes | None]]

# One byte each: length, attributes, timestamp delta, offset delta, key length, value length, header
# count.
MIN_RECORD_SIZE: Final = 7
# One byte each: key length, value length.
MIN_HEADER_SIZE: Final = 2
INT64: Final = 1 << 63

# Kafka allows any bytes as a header's key; this error handler preserves them over a read and a
# write.
HEADER_KEY_ERRORS: Final = "surrogateescape"


class Record(NamedTuple):
    """A record as read. `offset` and `timestamp` (ms since 1970, or -1 for none) are absolute."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class NewRecord(NamedTuple):
    """A record to be written; `timestamp` is in ms since 1970."""

    timestamp: int
    key: Bytes | None
    value: Bytes | None
    headers: Headers = ()


class EncodedRecords(NamedTuple):
    """The encoded records of an uncompressed batch, with the values that the batch header needs.
    Timestamps are in ms since 1970."""

    body: Bytes
    records_count: int
    base_timestamp: int
    max_timestamp: int

    @classmethod
    def of(cls, records: Iterable[NewRecord]) -> EncodedRecords:
        """Return these records, encoded. Raises ValueError as `encode_records` does, and if there
        are no records."""
        parts: list[Bytes] = []
        count, base_timestamp, max_timestamp = encode_records(records, parts)
        if not count:
            raise ValueError("a batch holds at least one record")
        return cls(b"".join(parts), count, base_timestamp, max_timestamp)

    def halves(self) -> tuple[EncodedRecords, EncodedRecords]:
        """Split the records, at least two, into two parts."""
        records = [
            NewRecord(timestamp, key, value, headers)
            for _, timestamp, key, value, headers in decode_records(
                bytes(self.body),
                self.records_count,
                base_offset=0,
                last_offset_delta=self.records_count - 1,
                base_timestamp=self.base_timestamp,
            )
        ]
        middle = self.records_count // 2
        return EncodedRecords.of(records[:middle]), EncodedRecords.of(records[middle:])


def encode_records(records: Iterable[NewRecord], parts: list[Bytes]) -> tuple[int, int, int]:
    """Append the encoded records to `parts`.

    Returns their count, the first timestamp (the deltas are relative to it) and the greatest one.
    Raises ValueError for timestamps too far apart for an int64.
    """
    small, limit, varint = SMALL, SMALL_LIMIT, encode_varint
    count = base_timestamp = max_timestamp = 0
    for timestamp, key, value, headers in records:
        if not count:
            base_timestamp = max_timestamp = timestamp
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        delta = timestamp - base_timestamp
        timestamp_delta = small[delta] if 0 <= delta < limit else varint(delta)
        offset_delta = small[count] if count < limit else varint(count)
        count += 1
        if key is None:
            key, key_length, size = b"", NULL, 2
        else:
            size = len(key)
            key_length = small[size] if size < limit else varint(size)
            size += 1 + len(key_length)
        if value is None:
            value, value_length = b"", NULL
            size += 1
        else:
            length = len(value)
            value_length = small[length] if length < limit else varint(length)
            size += length + len(value_length)
        tail = encode_headers(headers) if headers else b"\0"
        size += len(timestamp_delta) + len(offset_delta) + len(tail)
        # One concatenation of a tuple is faster than nine appends; the join comes once, at the end.
        parts += (
            small[size] if size < limit else varint(size),
            b"\0",
            timestamp_delta,
            offset_delta,
            key_length,
            key,
            value_length,
            value,
            tail,
        )
    return count, base_timestamp, max_timestamp


def encode_headers(headers: Headers) -> bytes:
    """Return the last part of a record: the header count and the headers."""
    parts: list[Bytes] = [encode_varint(len(headers))]
    for key, value in headers:
        name = key.encode("utf-8", HEADER_KEY_ERRORS)
        parts += (encode_varint(len(name)), name)
        if value is None:
            parts.append(NULL)
        else:
            parts += (encode_varint(len(value)), value)
    return b"".join(parts)


def decode_records(
    data: bytes, count: int, *, base_offset: int, last_offset_delta: int, base_timestamp: int
) -> list[Record]:
    """Return the `count` records of `data`. Raises CorruptRecords if a length or a count is wrong,
    if bytes are left over, or if offsets do not rise within the range of the batch.
    """
    parts = decode_in_parts(
        data, count, max(count, 1), base_offset=base_offset, last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
    )  # fmt: skip
    return next(iter(list(parts)), [])


def decode_in_parts(
    data: bytes, count: int, part: int, *,
    base_offset: int, last_offset_delta: int, base_timestamp: int,
) -> Iterator[list[Record]]:  # fmt: skip
    """Yield the records of `decode_records` in lists of `part` records; the last list may be
    shorter. Raises CorruptRecords as `decode_records` does, also after lists that were yielded."""
    # The check comes before the loop, so that a wrong count costs no time.
    if not 0 <= count <= len(data) // MIN_RECORD_SIZE:
        raise CorruptRecords(f"{len(data)} bytes cannot hold {count} records")
    position, previous = 0, base_offset - 1
    for start in range(0, count, part):
        try:
            records, position = _decode_loop(
                data, position, min(part, count - start), base_offset, base_timestamp, previous
            )
        except IndexError:
            raise CorruptRecords("a record goes beyond the end of its batch") from None
        previous = records[-1].offset
        if previous - base_offset > last_offset_delta:
            raise CorruptRecords("a record's offset is beyond the last offset of its batch")
        # The loop does not check the sum of the base and a delta of one byte. The sum is outside
        # int64 only if the base is near the limits of int64.
        if abs(base_timestamp) > INT64 - 0x80:
            for record in records:
                _checked_timestamp(record.timestamp)
        yield records
    if position != len(data):
        raise CorruptRecords(f"{len(data) - position} bytes after the last record")


def _decode_loop(
    data: bytes, position: int, count: int, base_offset: int, base_timestamp: int, previous: int
) -> tuple[list[Record], int]:
    """Return the `count` records from `position` on, and the position after them. `previous` is the
    offset before the first of them."""
    # Varints of the usual sizes are read inline, since calls would double the time. A slice never
    # reads past the end of `data`; the comparison with `end` finds a length that is too large.
    records: list[Record] = []
    append, new, zigzag = records.append, tuple.__new__, read_zigzag
    for _ in range(count):
        if (number := data[position]) < 0x80:
            position += 1
        elif (high := data[position + 1]) < 0x80:
            number += (high << 7) - 0x80
            position += 2
        else:
            number, position = zigzag(data, position, 32)
        end = -1 if number & 1 else position + (number >> 1)
        # The byte at `position` has the record's attributes, which Kafka does not use.
        if (number := data[position + 1]) < 0x80:
            position += 2
            timestamp = base_timestamp + ((number >> 1) ^ -(number & 1))
        else:
            timestamp, position = _decode_timestamp(data, position + 1, base_timestamp)
        if (number := data[position]) < 0x80:
            position += 1
        elif (high := data[position + 1]) < 0x80:
            number += (high << 7) - 0x80
            position += 2
        else:
            number, position = zigzag(data, position, 32)
        offset = base_offset + (number >> 1)
        if number & 1 or offset <= previous:
            raise CorruptRecords("offsets do not rise within the batch")
        previous = offset
        if (number := data[position]) < 0x80:
            position += 1
        else:
            number, position = zigzag(data, position, 32)
        start = position
        position += number >> 1
        key = _no_bytes(number) if number & 1 else data[start:position]
        if (number := data[position]) < 0x80:
            position += 1
        elif (high := data[position + 1]) < 0x80:
            number += (high << 7) - 0x80
            position += 2
        else:
            number, position = zigzag(data, position, 32)
        start = position
        position += number >> 1
        value = _no_bytes(number) if number & 1 else data[start:position]
        headers, position = (
            decode_headers(data, position, end) if data[position] else ((), position + 1)
        )
        if position != end:
            raise CorruptRecords("a record's length does not match its content")
        append(new(Record, (offset, timestamp, key, value, headers)))
    return records, position


def _decode_timestamp(data: bytes, position: int, base_timestamp: int) -> tuple[int, int]:
    delta, position = read_varint(data, position, 64)
    return _checked_timestamp(base_timestamp + delta), position


def _checked_timestamp(timestamp: int) -> int:
    if not -INT64 <= timestamp < INT64:
        raise CorruptRecords("a timestamp is outside int64")
    return timestamp


def _no_bytes(zigzag_length: int) -> bytes | None:
    """Return None, the value for length -1. Raises CorruptRecords for other negative lengths."""
    if zigzag_length != 1:
        raise CorruptRecords("a key or value has a negative length")
    return None


def decode_headers(
    data: bytes, position: int, end: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    """Return the headers of a record, and the position after them. The caller compares this
    position with `end`, the end of the record. Raises CorruptRecords, or IndexError at the end of
    `data`."""
    count, position = read_varint(data, position)
    if not 0 <= count <= (end - position) // MIN_HEADER_SIZE:
        raise CorruptRecords(f"a record of this length cannot hold {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = read_varint(data, position)
        if length < 0:
            raise CorruptRecords("a header without a key")
        key = data[position : position + length].decode("utf-8", HEADER_KEY_ERRORS)
        position += length
        length, position = read_varint(data, position)
        value = None
        if length >= 0:
            value = data[position : position + length]
            position += length
        elif length != -1:
            raise CorruptRecords("a header's value has a negative length")
        headers.append((key, value))
    return tuple(headers), position
