"""Buffers of large frames that were served, for the next large frames.

A new buffer of 1 MiB costs more time than its bytes take to arrive in it: the system clears its
pages, and Python clears them again.
"""

from __future__ import annotations

from typing import Final

# Minimum size of a kept buffer, and the maximum size of all kept buffers together.
SMALLEST_BYTES: Final = 64 << 10
KEPT_BYTES: Final = 4 << 20


class SpareBuffers:
    """The buffers of one event loop. Their old bytes are still in them: a frame is handed on only
    when its own bytes have replaced these."""

    __slots__ = ("_bytes", "_spares")

    def __init__(self) -> None:
        # The oldest first.
        self._spares: list[bytearray] = []
        self._bytes = 0

    def take(self, least: int, most: int) -> bytearray | None:
        """Return the largest buffer of `least` to `most` bytes that no other code uses, None if
        there is none."""
        fitting = [
            spare for spare in self._spares if least <= len(spare) <= most and not _is_in_use(spare)
        ]
        if not fitting:
            return None
        largest = max(fitting, key=len)
        self._spares = [spare for spare in self._spares if spare is not largest]
        self._bytes -= len(largest)
        return largest

    def give(self, buffer: bytearray) -> None:
        """Keep a buffer, also if views of it are still in use. The oldest ones make room for it."""
        if not SMALLEST_BYTES <= len(buffer) <= KEPT_BYTES:
            return
        self._spares.append(buffer)
        self._bytes += len(buffer)
        while self._bytes > KEPT_BYTES:
            self._bytes -= len(self._spares.pop(0))


def _is_in_use(buffer: bytearray) -> bool:
    """Return True if there is a view of the buffer. Python then refuses to change its size."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return True
    return False
