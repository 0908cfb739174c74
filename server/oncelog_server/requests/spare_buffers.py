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

    def take(self, size: int) -> bytearray | None:
        """Return a buffer of at least `size` bytes that no other code uses, None if there is
        none."""
        if size < SMALLEST_BYTES:
            return None
        for index, spare in enumerate(self._spares):
            if len(spare) >= size and not _is_in_use(spare):
                self._bytes -= len(spare)
                del self._spares[index]
                return spare
        return None

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
