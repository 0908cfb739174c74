"""The offsets and timestamps of a batch's records. A search by time needs neither keys nor values,
and usually only the first records of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .batch import TIMESTAMP_TYPE_FLAG, read_header, record_bytes
from .errors import CorruptRecords
from .record import INT64, Bytes
from .zigzag import read_zigzag


class RecordTime(NamedTuple):
    """The absolute offset and timestamp (ms since 1970, or -1 for none) of a record."""

    offset: int
    timestamp: int


def record_times(batch: Bytes, *, max_bytes: int) -> Iterator[RecordTime]:
    """Yield the times of the records of `batch`, which is whole, in their order.

    `max_bytes`: maximum size of the decompressed records. With LogAppendTime every record has the
    batch's timestamp. Raises UnsupportedMagic and CorruptRecords, the latter also for a record
    after others that were yielded. Keys, values and headers are not examined.
    """
    header = read_header(batch)
    if not header.records_count:
        return  # an empty batch, which may have no compressed bytes either
    if header.records_count < 0:
        raise CorruptRecords(f"a batch of {header.records_count} records")
    data = record_bytes(batch, 0, header, max_bytes)
    size = len(data)
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    fixed = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_FLAG else None
    new, zigzag = tuple.__new__, read_zigzag
    position, previous, most = 0, -1, header.last_offset_delta
    for _ in range(header.records_count):
        try:
            # Varints of the usual sizes are read inline, as in `record.py`.
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
            elif (high := data[position + 2]) < 0x80:
                number += (high << 7) - 0x80
                position += 3
            else:
                number, position = zigzag(data, position + 1, 64)
            timestamp = base_timestamp + ((number >> 1) ^ -(number & 1))
            if (number := data[position]) < 0x80:
                position += 1
            elif (high := data[position + 1]) < 0x80:
                number += (high << 7) - 0x80
                position += 2
            else:
                number, position = zigzag(data, position, 32)
        except IndexError:
            raise CorruptRecords("a record goes beyond the end of its batch") from None
        if not position <= end <= size:
            raise CorruptRecords("a record's length does not match its content")
        delta, position = number >> 1, end
        if number & 1 or not previous < delta <= most:
            raise CorruptRecords("offsets do not rise within the batch")
        if not -INT64 <= timestamp < INT64:
            raise CorruptRecords("a timestamp is outside int64")
        yield new(RecordTime, (base_offset + delta, timestamp if fixed is None else fixed))
        previous = delta
    if position != size:
        raise CorruptRecords(f"{size - position} bytes after the last record")
