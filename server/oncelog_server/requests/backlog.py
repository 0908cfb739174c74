"""Frames of one connection that arrived before they could be served."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_LENGTH_BYTES: Final = 4


class Backlog:
    """A queue of frames: `add` appends a frame, and `frames` takes the oldest first. Each frame is
    copied only once. A read may bring 18,000 frames and a turn serves 64 of them, so a copy of the
    rest in each turn would be expensive."""

    __slots__ = ("_added", "_position", "_taking", "waiting_bytes")

    def __init__(self) -> None:
        # An attribute instead of a method, because every request reads it.
        self.waiting_bytes = 0
        # The frames to yield, each after its length. New frames go to `_added`, because `_taking`
        # cannot grow while views of it are in use.
        self._taking = memoryview(b"")
        self._position = 0
        self._added = bytearray()

    def add(self, frame: memoryview) -> None:
        self._added += len(frame).to_bytes(_LENGTH_BYTES, "big")
        self._added += frame
        self.waiting_bytes += _LENGTH_BYTES + len(frame)

    def frames(self) -> Iterator[memoryview]:
        """Yield the frames. A frame counts as taken when it is yielded, so a later call continues
        after it."""
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
                self.clear()  # clear before the yield: the caller may stop after this frame
            yield frame

    def clear(self) -> None:
        self.waiting_bytes = 0
        self._taking = memoryview(b"")
        self._position = 0
        self._added = bytearray()
