"""The sparse index of a segment from timestamps to offsets (Kafka's TimeIndex).

An entry has a timestamp, and the last offset of a batch, relative to the segment. The batch has a
record with this timestamp, and no record up to the end of the batch has a later timestamp. An entry
takes 12 bytes in the file, big-endian.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from struct import Struct
from typing import Final

ENTRY_SIZE: Final = 12
_ENTRY: Final = Struct(">qi")


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

    def last(self) -> tuple[int, int] | None:
        if not self._timestamps:
            return None
        return self._timestamps[-1], self._offsets[-1]

    def encode(self) -> bytes:
        return b"".join(map(_ENTRY.pack, self._timestamps, self._offsets))

    @classmethod
    def decode(cls, data: bytes, last_relative_offset: int) -> TimeIndex | None:
        """Decode an index file. Return None for a file that cannot be the index of a segment
        that ends at `last_relative_offset`."""
        if len(data) % ENTRY_SIZE:
            return None
        index = cls()
        previous_timestamp, previous_offset = -1, 0
        for timestamp, offset in _ENTRY.iter_unpack(data):
            if timestamp <= previous_timestamp or offset < previous_offset:
                return None
            index._timestamps.append(timestamp)
            index._offsets.append(offset)
            previous_timestamp, previous_offset = timestamp, offset
        return index if previous_offset <= last_relative_offset else None
