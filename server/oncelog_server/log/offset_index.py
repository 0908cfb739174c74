"""The sparse index of a segment from offsets to file positions (Kafka's OffsetIndex).

An entry has the *last* offset of a batch, relative to the segment, and the position where that
batch begins. An entry takes 8 bytes in the file, big-endian. In memory the index is two arrays, so
that a look-up is a single bisect.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from oncelog_server.log.rising import rises

ENTRY_SIZE: Final = 8
MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1


class OffsetIndex:
    """The entries of an index. Both columns strictly increase."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, relative_offset: int, position: int) -> None:
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def floor(self, relative_offset: int) -> tuple[int, int] | None:
        """Return the last entry at or below `relative_offset`. Return None if there is no such
        entry."""
        slot = bisect_right(self._offsets, relative_offset) - 1
        if slot < 0:
            return None
        return self._offsets[slot], self._positions[slot]

    def ceiling(self, position: int) -> int | None:
        """Return the relative offset of the first entry at or after `position`. Return None if
        there is no such entry. No batch before `position` has this offset or a later offset."""
        slot = bisect_left(self._positions, position)
        return self._offsets[slot] if slot < len(self._offsets) else None

    def truncate_from(self, position: int) -> None:
        """Remove the entries at or after `position`."""
        slot = bisect_left(self._positions, position)
        del self._offsets[slot:], self._positions[slot:]

    def last(self) -> tuple[int, int] | None:
        if not self._offsets:
            return None
        return self._offsets[-1], self._positions[-1]

    def encode(self) -> bytes:
        interleaved = array("i", bytes(ENTRY_SIZE * len(self._offsets)))
        interleaved[0::2] = self._offsets
        interleaved[1::2] = self._positions
        return _big_endian(interleaved).tobytes()

    @classmethod
    def decode(cls, data: bytes, log_size: int) -> OffsetIndex | None:
        """Return the index in `data`. Return None if `data` cannot be the index of a log file of
        `log_size` bytes."""
        if len(data) % ENTRY_SIZE:
            return None
        interleaved = _big_endian(array("i", data))
        index = cls()
        index._offsets = interleaved[0::2]
        index._positions = interleaved[1::2]
        if not index._offsets:
            return index
        if index._positions[-1] >= log_size:
            return None
        if not (rises(index._offsets, strictly=True) and rises(index._positions, strictly=True)):
            return None
        return index


def _big_endian(values: array[int]) -> array[int]:
    if sys.byteorder == "little":
        values.byteswap()
    return values
