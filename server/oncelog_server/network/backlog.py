"""Frames of one connection that came before they could be served."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_LENGTH_BYTES: Final = 4


class Backlog:
    """`add` frames, take them with `frames`, oldest first. None is copied again when others are
    added or taken: a read may bring 18,000, of which a turn serves 64."""

    __slots__ = ("_added", "_position", "_taking", "waiting_bytes")

    def __init__(self) -> None:
        # Kept, because every request asks.
        self.waiting_bytes = 0
        # Each frame behind its length. What is being taken is never added to: views of it are out.
        self._taking = memoryview(b"")
        self._position = 0
        self._added = bytearray()

    def add(self, frame: memoryview) -> None:
        self._added += len(frame).to_bytes(_LENGTH_BYTES, "big")
        self._added += frame
        self.waiting_bytes += _LENGTH_BYTES + len(frame)

    def frames(self) -> Iterator[memoryview]:
        """Those that wait. Each counts as taken when it is given, so whoever stops goes on there
        the next time."""
        while self.waiting_bytes:
            start = self._position + _LENGTH_BYTES
            if start > len(self._taking):
                self._taking = memoryview(self._added)
                self._added = bytearray()
                self._position = 0
                continue
            end = start + int.from_bytes(self._taking[self._position : start], "big")
            frame = self._taking[start:end]
            self._position = end
            self.waiting_bytes -= _LENGTH_BYTES + end - start
            if not self.waiting_bytes:
                self.clear()  # nobody may ask for a next one
            yield frame

    def clear(self) -> None:
        self.waiting_bytes = 0
        self._taking = memoryview(b"")
        self._position = 0
        self._added = bytearray()
