"""The frames of requests and responses: a 4-byte size, then that many bytes. This module does no
IO. The client uses this module, and the broker uses it for its own requests to other brokers. For
requests from clients, the broker has a reader of its own (`requests/frame_reader.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.types import Buffer

MAX_FRAME_SIZE: Final = 100 * 1024 * 1024
"""Kafka's own limit on a request (`socket.request.max.bytes`)."""

_SIZE = struct.Struct(">i")
read_size = _SIZE.unpack_from
write_size = _SIZE.pack


def check_size(size: int, limit: int = MAX_FRAME_SIZE) -> int:
    """Return the size of a frame. Raises ProtocolError if it is negative or above the limit."""
    if not 0 <= size <= limit:
        raise ProtocolError(f"a frame of {size} bytes; the limit is {limit}")
    return size


def frame(parts: Sequence[Any]) -> list[Any]:
    """Return the parts of a frame, with the size as the first part. A part is anything with
    `__len__`."""
    return [write_size(sum(map(len, parts))), *parts]


class FrameReader:
    """Cuts a stream of bytes into frames. The bytes may arrive in pieces of any size. The stream is
    unreadable after a ProtocolError: every further call raises the error again.
    """

    __slots__ = ("_buffer", "_limit")

    def __init__(self, limit: int = MAX_FRAME_SIZE) -> None:
        self._limit = limit
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Return the number of bytes of an incomplete frame. If this number is not 0 at the end of
        a stream, the last frame was cut off."""
        return len(self._buffer)

    def receive_data(self, data: Buffer) -> Iterator[bytes]:
        """Yield the complete frames, without their sizes. A frame is removed from the buffer when
        it is yielded.

        Raises ProtocolError at a negative size or a size above the limit. The frames before it are
        yielded first, and no memory is allocated for the bad frame.
        """
        self._buffer += data
        return self._cut()

    def _cut(self) -> Iterator[bytes]:
        buffer = self._buffer
        while len(buffer) >= _SIZE.size:
            (size,) = read_size(buffer)
            stop = _SIZE.size + check_size(size, self._limit)
            if stop > len(buffer):
                return
            with memoryview(buffer) as view, view[_SIZE.size : stop] as content:
                complete = bytes(content)
            del buffer[:stop]
            yield complete
