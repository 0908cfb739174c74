"""The sparse index of a segment from timestamps to offsets (Kafka's TimeIndex).

An entry has a timestamp, and the last offset of a batch, relative to the segment. The batch has a
record with this timestamp, and no record up to the end of the batch has a later timestamp. An entry
takes 12 bytes in the file, big-endian.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from typing import Final

from oncelog_server.log.rising import rises

ENTRY_SIZE: Final = 12


class TimeIndex:
    """The entries of an index. Timestamps strictly increase, and offsets never decrease."""

    __slots__ = ("_offsets", "_timestamps")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")

    def __len__(self) -> int:
        return len(self._timestamps)

    def append_if_later(self, timestamp: int, relative_offset: int) -> None:
        """Add the entry, unless the last entry has the same or a later timestamp
        (TimeIndex.maybeAppend)."""
        if timestamp > (self._timestamps[-1] if self._timestamps else -1):
            self._timestamps.append(timestamp)
            self._offsets.append(relative_offset)

    def floor(self, timestamp: int) -> tuple[int, int] | None:
        """Return the last entry at or before `timestamp`. Return None if there is no such entry."""
        slot = bisect_right(self._timestamps, timestamp) - 1
        if slot < 0:
            return None
        return self._timestamps[slot], self._offsets[slot]

    def truncate_after(self, relative_offset: int) -> None:
        """Remove the entries above `relative_offset`."""
        slot = bisect_right(self._offsets, relative_offset)
        del self._timestamps[slot:], self._offsets[slot:]

    def last(self) -> tuple[int, int] | None:
        if not self._timestamps:
            return None
        return self._timestamps[-1], self._offsets[-1]

    def encode(self) -> bytes:
        halves = array("i", _big_endian(self._timestamps).tobytes())
        words = array("i", bytes(ENTRY_SIZE * len(self)))
        words[0::3], words[1::3] = halves[0::2], halves[1::2]
        words[2::3] = _big_endian(self._offsets)
        return words.tobytes()

    @classmethod
    def decode(cls, data: bytes, last_relative_offset: int) -> TimeIndex | None:
        """Decode an index file. Return None for a file that cannot be the index of a segment
        that ends at `last_relative_offset`."""
        if len(data) % ENTRY_SIZE:
            return None
        # The columns are copied as halves of timestamps. A loop over the entries of a large segment
        # would hold the event loop up.
        words = array("i", data)
        halves = array("i", bytes(8 * (len(words) // 3)))
        halves[0::2], halves[1::2] = words[0::3], words[1::3]
        index = cls()
        index._timestamps = _big_endian(array("q", halves.tobytes()))
        index._offsets = _big_endian(words[2::3])
        if not (rises(index._timestamps, strictly=True) and rises(index._offsets, strictly=False)):
            return None
        if index._offsets and index._offsets[-1] > last_relative_offset:
            return None
        return index


def _big_endian(values: array[int]) -> array[int]:
    """Return a copy in the byte order of the file, or a copy in the processor's order again."""
    copied = values[:]
    if sys.byteorder == "little":
        copied.byteswap()
    return copied
