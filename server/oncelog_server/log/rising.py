"""The check of a column of an index, without a loop over its entries.

A segment of 1 GB has up to 262,144 entries, and the event loop would stand still for 20 ms for each
column. Two integers hold many values and the values after them, with one lane of bits for each. A
single subtraction then compares all these neighbours.
"""

from __future__ import annotations

import sys
from array import array
from functools import cache
from typing import Final

# Number of values that are compared at once. Their bytes stay in the first cache of the processor.
_LANES: Final = 1024


def rises(values: array[int], *, strictly: bool) -> bool:
    """Return True if no value is negative or below its predecessor. `strictly`: no value equals its
    predecessor either. The type code of `values` is signed."""
    size, last = values.itemsize, len(values) - 1
    if values and values[0] < 0:
        return False
    if sys.byteorder == "big":
        values = array(values.typecode, values)
        values.byteswap()
    data = values.tobytes()
    for start in range(0, last, _LANES):
        count = min(_LANES, last - start)
        begin, end = start * size, (start + count) * size
        before = int.from_bytes(data[begin:end], "little")
        after = int.from_bytes(data[begin + size : end + size], "little")
        ones = _ones(size) >> (8 * size * (_LANES - count))
        signs = ones << (8 * size - 1)
        if (before | after) & signs:
            return False
        # The sign bit keeps each lane above zero, so that no lane borrows from the next. It is left
        # in a lane if the second value is large enough.
        difference = (after | signs) - before - (ones if strictly else 0)
        if difference & signs != signs:
            return False
    return True


@cache
def _ones(size: int) -> int:
    """Return an integer with the value 1 in each of _LANES lanes of `size` bytes."""
    return int.from_bytes((b"\1" + bytes(size - 1)) * _LANES, "little")
