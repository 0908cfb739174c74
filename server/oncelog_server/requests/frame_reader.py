"""Split a connection's bytes into frames, without copying those that arrive whole.

All connections of a loop share one buffer: asyncio calls `get_buffer` and `buffer_updated` of a
BufferedProtocol back to back, so no other connection writes into it between them. An incomplete
frame moves to its own buffer, which grows with the bytes that have *arrived*, never to the size
that its length field claims. A buffer of an earlier frame has the same limit."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from oncelog_protocol.errors import ProtocolError
from oncelog_server.requests.spare_buffers import SpareBuffers

_LENGTH: Final = struct.Struct(">i")
SHARED_BYTES: Final = 256 << 10
# Minimum size of a frame's buffer, and its growth as a factor of the arrived bytes. The buffer is
# never larger than the frame. So 10,000 clients that send only a length take little memory
# (scenario H3).
FIRST_BYTES: Final = 4 << 10
_GROWTH: Final = 4


# The first four bytes of other protocols. In Kafka's protocol these bytes are the frame's length.
_OTHER_PROTOCOLS: Final = {
    **dict.fromkeys(
        (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI "),
        "an HTTP request",
    ),
    b"SSH-": "an SSH client",
}
# A TLS record of type handshake, of version 3.x (RFC 8446, section 5.1).
_TLS_HANDSHAKE: Final = b"\x16\x03"


def _other_protocol(first: bytes) -> str | None:
    """Return the protocol of a connection with these first four bytes, None if it is unknown."""
    if first.startswith(_TLS_HANDSHAKE):
        return "a TLS handshake"
    return _OTHER_PROTOCOLS.get(first)


class SharedBuffer:
    """The read buffer of one event loop, and its spare buffers for large frames."""

    def __init__(self, size: int = SHARED_BYTES) -> None:
        self.bytes = bytearray(size)
        self.view = memoryview(self.bytes)
        self.spares = SpareBuffers()


class FrameReader:
    """`buffer()` returns the place for the next bytes; `received(n)` yields complete frames,
    without their length."""

    __slots__ = ("_frame", "_frame_size", "_head", "_received", "_shared", "limit")

    def __init__(self, shared: SharedBuffer, max_frame_bytes: int) -> None:
        self._shared = shared
        # The largest frame in bytes. It may change between two frames.
        self.limit = max_frame_bytes
        # The first bytes of an incomplete length field.
        self._head = b""
        self._frame: bytearray | None = None
        self._frame_size = 0
        self._received = 0

    @property
    def is_within_frame(self) -> bool:
        return self._frame is not None or bool(self._head)

    @property
    def arrived_bytes(self) -> int:
        """The number of bytes of an incomplete frame that have arrived."""
        return self._received if self._frame is not None else len(self._head)

    @property
    def held_bytes(self) -> int:
        """The size in bytes of the buffer of an incomplete frame."""
        return len(self._frame) if self._frame is not None else 0

    @property
    def missing_bytes(self) -> int:
        """The number of bytes that an incomplete frame lacks. 0 while its length is not known."""
        return self._frame_size - self._received if self._frame is not None else 0

    def buffer(self) -> memoryview:
        frame = self._frame
        if frame is not None:
            if self._received == len(frame):
                frame = self._grow(frame)
            return memoryview(frame)[self._received : self._frame_size]
        head = self._head
        if head:
            self._shared.view[: len(head)] = head
            return self._shared.view[len(head) :]
        return self._shared.view

    def _grow(self, frame: bytearray) -> bytearray:
        # Another buffer, because the loop may still hold a view of the old one.
        grown = self._new_buffer(len(frame), self._frame_size)
        grown[: len(frame)] = frame
        self._frame = grown
        self._shared.spares.give(frame)
        return grown

    def _new_buffer(self, arrived: int, frame_size: int) -> bytearray:
        """Return a buffer for a frame with this number of bytes so far: a spare one that holds the
        whole frame or at least twice these bytes, else a new one."""
        most = max(FIRST_BYTES, _GROWTH * arrived)
        spare = self._shared.spares.take(min(frame_size, 2 * arrived), most)
        return spare or bytearray(min(frame_size, most))

    def whole(self, count: int) -> memoryview | None:
        """Return the frame if the `count` bytes read are exactly one frame, the usual case.
        Otherwise return None and change nothing."""
        if count > _LENGTH.size and self._frame is None and not self._head:
            (size,) = _LENGTH.unpack_from(self._shared.bytes)
            if size == count - _LENGTH.size <= self.limit:
                return self._shared.view[_LENGTH.size : count]
        return None

    def advance(self, count: int) -> bool:
        """Count the bytes read into a frame that is still incomplete afterwards. Otherwise return
        False and change nothing."""
        if self._frame is None or self._received + count == self._frame_size:
            return False
        self._received += count
        return True

    def received(self, count: int) -> Iterator[memoryview]:
        """Yield the complete frames in order. A view is valid until the next frame is taken, unless
        the frame has its own buffer. Raises ProtocolError for an invalid length."""
        frame = self._frame
        if frame is not None:
            self._received += count
            if self._received == self._frame_size:
                self._frame = None
                yield memoryview(frame)[: self._frame_size]
                self._shared.spares.give(frame)
            return
        view = self._shared.view
        end = len(self._head) + count
        self._head = b""
        position = 0
        while end - position >= 4:
            size = self._size_at(position)
            start = position + 4
            if end - start < size:
                self._keep(view[start:end], size)
                return
            position = start + size
            yield view[start:position]
        self._head = bytes(view[position:end])

    def _size_at(self, position: int) -> int:
        (size,) = _LENGTH.unpack_from(self._shared.bytes, position)
        self._check(size)
        return int(size)

    def _check(self, size: int) -> None:
        if 0 < size <= self.limit:
            return
        other = _other_protocol(_LENGTH.pack(size))
        if other is not None:
            raise ProtocolError(f"{other} on a listener for Kafka's protocol without TLS")
        raise ProtocolError(f"a frame of {size} bytes; the limit is {self.limit}")

    def _keep(self, part: memoryview, size: int) -> None:
        """Keep the beginning of an incomplete frame in its own buffer."""
        frame = self._new_buffer(len(part), size)
        frame[: len(part)] = part
        self._frame = frame
        self._frame_size = size
        self._received = len(part)
