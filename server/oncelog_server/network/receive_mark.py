"""The fewest bytes that make a socket readable (SO_RCVLOWAT in socket(7)).

A producer that encrypts a large request sends it in records of a few KB. Without a mark, each
record wakes the broker, and is a segment of its own. With a mark, the kernel sends fewer and larger
segments, which costs the broker and a producer on the same machine less.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any, Final

MARK_BYTES: Final = 32 << 10
# RFC 8446, section 5.1. The part of a record that has left the socket may have this many bytes of a
# frame, and they have not arrived until the record is complete.
RECORD_BYTES: Final = 16 << 10
HAS_MARKS: Final = sys.platform == "linux"


class ReceiveMark:
    """The mark of one socket below TLS. It is above 1 only while more bytes than that must still
    come through the socket."""

    __slots__ = ("_is_raised", "_socket", "_transport")

    @classmethod
    def of(cls, transport: asyncio.Transport) -> ReceiveMark | None:
        """Return the mark of a TLS connection's socket, None for a connection without TLS."""
        sock = transport.get_extra_info("socket")
        has_tls = transport.get_extra_info("sslcontext") is not None
        return cls(transport, sock) if HAS_MARKS and has_tls and sock is not None else None

    def __init__(self, transport: asyncio.Transport, sock: Any) -> None:
        """`sock` is the socket of the transport, as its `get_extra_info` returns it."""
        self._transport = transport
        self._socket = sock
        self._is_raised = False

    def follow(self, missing_bytes: int) -> None:
        """Raise or lower the mark, after a read. `missing_bytes` is what an incomplete frame lacks,
        0 without one."""
        raised = missing_bytes >= MARK_BYTES + RECORD_BYTES
        if raised != self._is_raised:
            self._set(raised)

    def lower(self) -> None:
        """Make the socket readable if it has any byte. The next read may raise the mark again."""
        if self._is_raised:
            self._set(False)

    def _set(self, raised: bool) -> None:
        if self._transport.is_closing():
            return  # another socket may have the descriptor already
        self._is_raised = raised
        mark = MARK_BYTES if raised else 1
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
