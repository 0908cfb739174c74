"""The records of many batches at once, as columns of positions in their bytes.

Only the walk over the lengths of records takes a step of Python for each record. The content is
read column by column: all key lengths, then all value lengths, and so on. The functions raise
Unusual for unusual records, which the caller decodes with the ordinary decoder, `read_records`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import MIN_RECORD_SIZE, Bytes
from oncelog_protocol.records.zigzag import read_zigzag

# An Arrow column, or one number for all rows, such as the key length of records without keys.
Numbers: TypeAlias = Any

_INT64: Final = pa.int64()
_ZERO: Final = pa.scalar(0, _INT64)
_ONE: Final = pa.scalar(1, _INT64)
_CONTINUED: Final = pa.scalar(0x80, pa.uint8())
_NO_MORE: Final = pa.scalar(0, pa.uint8())
_OFFSET_BITS: Final = pa.scalar(32, _INT64)
# A varint of 4 bytes always fits an int32, and one of 9 bytes an int64. A longer varint may not
# fit.
_INT32_BYTES: Final = 4
_INT64_BYTES: Final = 9


class Unusual(Exception):
    """The records are damaged, or contain an unusually large number."""


class Body(NamedTuple):
    """The records of one batch: `records_count` of them, from `start` to `end` in the data."""

    start: int
    end: int
    records_count: int


@dataclass(frozen=True, slots=True)
class RecordPositions:
    """The positions of the parts of records, one row for each record. A `*_null` column is None if
    no part is null."""

    rows: int
    timestamp_delta: Numbers
    offset_delta: Numbers
    key_start: Numbers
    key_end: Numbers
    key_null: Numbers | None
    value_start: Numbers
    value_end: Numbers
    value_null: Numbers | None
    headers_start: Numbers
    # The first byte of the varint that counts the headers: 0 if the record has no header.
    headers_count: Numbers
    end: Numbers


def find(data: Bytes, bodies: Sequence[Body]) -> RecordPositions:
    """Return the positions of all parts in the records of these batches. No batch is empty.

    Raises Unusual. The bytes between `headers_start` and `end` are not checked.
    """
    try:
        begins, ends = _ends(data, bodies)
        return _find(data, begins, ends)
    except (CorruptRecords, IndexError) as error:
        raise Unusual(str(error)) from None


def _ends(data: Bytes, bodies: Sequence[Body]) -> tuple[pa.Array, pa.Array]:
    """Return the start of each record, where its length is stored, and the end of each record."""
    begins: list[int] = []
    ends: list[int] = []
    for start, end, count in bodies:
        if not 0 < count <= (end - start) // MIN_RECORD_SIZE:
            raise Unusual("the count of records")
        first = len(ends)
        if _walk(data, start, count, ends.append) != end:
            raise Unusual("bytes after the last record")
        begins.append(start)
        begins += ends[first:-1]
    return _column(begins), _column(ends)


def _walk(data: Bytes, position: int, count: int, append: Callable[[int], None]) -> int:
    for _ in range(count):
        if (number := data[position]) < 0x80:
            position += 1
        elif (high := data[position + 1]) < 0x80:
            number += (high << 7) - 0x80
            position += 2
        else:
            number, position = read_zigzag(data, position, 32)
        position += number >> 1
        append(position)
    return position


def _column(numbers: list[int]) -> pa.Array:
    # `array` takes half the time of pa.array.
    return pa.Array.from_buffers(_INT64, len(numbers), [None, pa.py_buffer(array("q", numbers))])


def _find(data: Bytes, begins: pa.Array, ends: pa.Array) -> RecordPositions:
    length, position = varints(data, begins)
    length_of(length)
    # Skip the attributes, which are unused.
    timestamp_delta, position = varints(data, pc.add(position, _ONE), _INT64_BYTES)
    offset_delta, position = varints(data, position)
    key_length, key_start = varints(data, position)
    key_end = pc.add(key_start, pc.shift_right(key_length, _ONE))
    value_length, value_start = varints(data, key_end)
    value_end = pc.add(value_start, pc.shift_right(value_length, _ONE))
    headers_count = _one_if_equal(pc.take(_bytes(data), value_end))
    headerless_end = pc.add(value_end, _ONE)
    has_none = pc.equal(headers_count, _NO_MORE)
    fits = pc.equal(headerless_end, ends)
    if not isinstance(headers_count, pa.Scalar):
        fits = pc.if_else(has_none, fits, pc.less(headerless_end, ends))
    elif headers_count.as_py():
        fits = pc.less(headerless_end, ends)
    if not pc.all(fits).as_py():
        raise Unusual("a record's length does not match its content")
    return RecordPositions(
        rows=len(begins),
        timestamp_delta=_signed(timestamp_delta),
        offset_delta=length_of(offset_delta),
        key_start=key_start,
        key_end=key_end,
        key_null=nulls(key_length),
        value_start=value_start,
        value_end=value_end,
        value_null=nulls(value_length),
        headers_start=value_end,
        headers_count=headers_count,
        end=ends,
    )


def _bytes(data: Bytes) -> pa.Array:
    return pa.Array.from_buffers(pa.uint8(), len(data), [None, pa.py_buffer(data)])


def varints(
    data: Bytes, position: pa.Array, most_bytes: int = _INT32_BYTES
) -> tuple[Numbers, pa.Array]:
    """Return the numbers at these positions, still in zigzag, and the positions after the numbers.
    There is at least one position.

    Raises Unusual, or IndexError beyond the end of the data.
    """
    column = _bytes(data)
    byte = pc.take(column, position)
    position = pc.add(position, _ONE)
    least, most = pc.min_max(byte).values()
    if least == most and most.as_py() < 0x80:
        return pc.cast(most, _INT64), position
    number = pc.cast(byte, _INT64)
    shift = 0
    while most.as_py() >= 0x80:
        shift += 7
        if shift == 7 * most_bytes:
            raise Unusual("a large number")
        # `number` still has the highest bit of the last byte, which only says that a byte follows.
        # The subtraction removes that bit.
        if least.as_py() >= 0x80:
            byte = pc.take(column, position)
            position = pc.add(position, _ONE)
            number = pc.subtract(number, pa.scalar(1 << shift, _INT64))
        else:
            more = pc.greater_equal(byte, _CONTINUED)
            # A complete number may end the data. It has no next byte, so read byte 0 of the data
            # for it, and ignore that byte.
            byte = pc.take(column, pc.if_else(more, position, _ZERO))
            byte = pc.if_else(more, byte, _NO_MORE)
            more = pc.cast(more, _INT64)
            position = pc.add(position, more)
            number = pc.subtract(number, pc.shift_left(more, pa.scalar(shift, _INT64)))
        high = pc.shift_left(pc.cast(byte, _INT64), pa.scalar(shift, _INT64))
        number = pc.add(number, high)
        least, most = pc.min_max(byte).values()
    return _one_if_equal(number), position


def _one_if_equal(numbers: pa.Array) -> Numbers:
    least, most = pc.min_max(numbers).values()
    return most if least == most else numbers


def as_column(numbers: Numbers, rows: int) -> pa.Array:
    return pa.repeat(numbers, rows) if isinstance(numbers, pa.Scalar) else numbers


def _has_odd(numbers: Numbers) -> bool:
    odd = pc.bit_wise_and(numbers, _ONE)
    return bool(odd.as_py() if isinstance(odd, pa.Scalar) else pc.max(odd).as_py())


def _signed(numbers: Numbers) -> Numbers:
    """Return the numbers decoded from zigzag."""
    sign = pc.negate(pc.bit_wise_and(numbers, _ONE))
    return pc.bit_wise_xor(pc.shift_right(numbers, _ONE), sign)


def length_of(numbers: Numbers) -> Numbers:
    """Return the numbers decoded from zigzag. Raises Unusual if one is negative."""
    if _has_odd(numbers):
        raise Unusual("a negative length or count")
    return pc.shift_right(numbers, _ONE)


def nulls(length: Numbers) -> Numbers | None:
    """Return a mask of the lengths that are -1 (in zigzag). Return None if no length is -1. Raises
    Unusual for any other negative length."""
    if not _has_odd(length):
        return None
    null = pc.equal(length, _ONE)
    if isinstance(length, pa.Scalar):
        if not null.as_py():
            raise Unusual("a negative length")
    elif pc.sum(null).as_py() != pc.sum(pc.bit_wise_and(length, _ONE)).as_py():
        raise Unusual("a negative length")
    return null


class _Evens:
    """The numbers 0, 2, 4 and so on. The column grows on demand."""

    def __init__(self) -> None:
        self._column = pa.array([], pa.int32())

    def first(self, count: int) -> pa.Array:
        if len(self._column) < count:
            numbers = array("i", range(0, 4 * count, 2))
            buffers = [None, pa.py_buffer(numbers)]
            self._column = pa.Array.from_buffers(pa.int32(), 2 * count, buffers)
        return self._column.slice(0, count)


_evens: Final = _Evens()


def gather(data: Bytes, start: Numbers, end: Numbers, null: Numbers | None, rows: int) -> pa.Array:
    """Return the bytes from each start to its end as a binary column, with null where `null` is
    true."""
    if isinstance(null, pa.Scalar):
        return pa.nulls(rows, pa.binary())
    # Make one column over the whole data, in which the wanted pieces and the gaps between them
    # alternate. Then take the wanted pieces.
    pairs = pc.bit_wise_or(start, pc.shift_left(end, _OFFSET_BITS))
    buffers = [None, pairs.buffers()[1], pa.py_buffer(data)]
    alternating = pa.Array.from_buffers(pa.binary(), 2 * rows - 1, buffers)
    wanted = _evens.first(rows)
    if null is not None:
        wanted = pc.if_else(null, pa.scalar(None, pa.int32()), wanted)
    return pc.take(alternating, wanted)
