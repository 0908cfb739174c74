"""A map from keys to their latest offsets, in a given number of bytes (Kafka's SkimpyOffsetMap)."""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import Final

_DIGEST_BYTES: Final = 16
# A slot has the digest of a key, and the offset + 1. An empty slot has 0.
SLOT_BYTES: Final = _DIGEST_BYTES + 8
NOT_THERE: Final = -1

_OFFSET: Final = Struct(">q")


class OffsetMap:
    """Maps keys to offsets by 128 bits of a collision-resistant digest. `slots` is the capacity,
    `latest_offset` the last offset that the map has seen."""

    __slots__ = ("_data", "_limit", "_slots", "latest_offset", "size")

    def __init__(self, slots: int, load_factor: float) -> None:
        """`load_factor`: the share of slots that may be used. The empty slots keep look-ups
        short."""
        self._slots = max(slots, 2)
        # One slot stays empty, so that every look-up ends.
        self._limit = max(min(int(self._slots * load_factor), self._slots - 1), 1)
        self._data = bytearray(self._slots * SLOT_BYTES)
        self.size = 0
        self.latest_offset = -1

    @property
    def is_full(self) -> bool:
        return self.size >= self._limit

    def put(self, key: bytes, offset: int) -> None:
        """Store the offset of a key. The map must not be full."""
        data, slots = self._data, self._slots
        digest = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        slot = int.from_bytes(digest[:8], "big") % slots
        while True:
            position = slot * SLOT_BYTES
            at_offset = position + _DIGEST_BYTES
            if data[position:at_offset] == digest:
                break
            if not _OFFSET.unpack_from(data, at_offset)[0]:
                data[position:at_offset] = digest
                self.size += 1
                break
            slot = slot + 1 if slot + 1 < slots else 0
        _OFFSET.pack_into(data, at_offset, offset + 1)
        self.latest_offset = offset

    def get(self, key: bytes) -> int:
        """Return the latest offset of `key`, NOT_THERE if the map does not have `key`."""
        data, slots = self._data, self._slots
        digest = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        slot = int.from_bytes(digest[:8], "big") % slots
        while True:
            position = slot * SLOT_BYTES
            at_offset = position + _DIGEST_BYTES
            offset: int = _OFFSET.unpack_from(data, at_offset)[0]
            if not offset:
                return NOT_THERE
            if data[position:at_offset] == digest:
                return offset - 1
            slot = slot + 1 if slot + 1 < slots else 0
