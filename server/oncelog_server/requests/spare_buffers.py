"""Buffers of large frames that were served, for the next large frames.

A new buffer of 1 MiB costs more time than its bytes take to arrive in it: the system clears its
pages, and Python clears them again. A buffer that holds the whole frame from the start also saves
the copies into larger and larger buffers.
"""

from __future__ import annotations

from typing import Final

# Minimum size of a kept buffer, and the maximum size of all kept and lent buffers together.
SMALLEST_BYTES: Final = 64 << 10
KEPT_BYTES: Final = 4 << 20


class SpareBuffers:
    """The buffers of one event loop. Their old bytes are still in them: a frame is handed on only
    when its own bytes have replaced these."""

    __slots__ = ("_bytes", "_lent", "_spares")

    def __init__(self) -> None:
        # The oldest first.
        self._spares: list[bytearray] = []
        self._lent: list[bytearray] = []
        self._bytes = 0

    def take(self, least: int, most: int) -> bytearray | None:
        """Return the largest buffer of `least` to `most` bytes that no other code uses, None if
        there is none."""
        taken = self._remove(least, most)
        if taken is not None:
            self._bytes -= len(taken)
        return taken

    def lend(self, frame_bytes: int) -> bytearray | None:
        """Return a buffer that holds a whole frame of this size, before its bytes arrive. Return
        None if no kept buffer fits.

        It counts as kept until it is given back. So all frames with such buffers take no memory
        that would not be taken without them.
        """
        lent = self._remove(frame_bytes, 2 * frame_bytes)
        if lent is not None:
            self._lent.append(lent)
        return lent

    def _remove(self, least: int, most: int) -> bytearray | None:
        fitting = [
            spare for spare in self._spares if least <= len(spare) <= most and not _is_in_use(spare)
        ]
        if not fitting:
            return None
        largest = max(fitting, key=len)
        self._spares = [spare for spare in self._spares if spare is not largest]
        return largest

    def give(self, buffer: bytearray) -> None:
        """Keep a buffer, also if views of it are still in use. The oldest ones make room for it."""
        if any(lent is buffer for lent in self._lent):
            self._lent = [lent for lent in self._lent if lent is not buffer]
            self._bytes -= len(buffer)
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
