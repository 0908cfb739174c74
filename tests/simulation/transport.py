"""One end of a simulated connection, as a transport of asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.pipe import Pipe, Watcher

if TYPE_CHECKING:
    from tests.simulation.loop import SimLoop

HIGH_WATER: Final = 64 << 10


class SimTransport(asyncio.Transport):
    """A transport. `context`: the context of the process at this end. Call `open` when both ends
    exist."""

    def __init__(
        self,
        loop: SimLoop,
        protocol: asyncio.BaseProtocol,
        context: Context,
        incoming: Pipe,
        outgoing: Pipe,
        extra: dict[str, object],
        forget: Callable[[SimTransport], None],
    ) -> None:
        super().__init__(extra)
        self._loop = loop
        self.protocol = protocol
        self.context = context
        self.incoming = incoming
        self.outgoing = outgoing
        self._forget = forget
        self._closing = False
        self._paused = False
        self._opened = False
        self._write_paused = False
        self._lost = False
        self._high_water = HIGH_WATER
        # Gets every write of this end before it is sent.
        self.watcher: Watcher | None = None

    def open(self) -> None:
        self._opened = True
        self.protocol.connection_made(self)
        self.incoming.arm()

    # Reading.

    def is_reading(self) -> bool:
        return self._opened and not self._paused and not self._closing

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self.incoming.arm()

    def feed(self, data: bytes) -> bytes:
        """Give bytes to the protocol. Return the bytes that it did not take."""
        protocol = self.protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            rest = memoryview(data)
            while rest and self.is_reading():
                buffer = memoryview(protocol.get_buffer(len(rest)))
                count = min(len(buffer), len(rest))
                buffer[:count] = rest[:count]
                protocol.buffer_updated(count)
                rest = rest[count:]
            return bytes(rest)
        assert isinstance(protocol, asyncio.Protocol)
        protocol.data_received(data)
        return b""

    def peer_closed(self) -> None:
        if not self._closing:
            assert isinstance(self.protocol, asyncio.Protocol | asyncio.BufferedProtocol)
            keep_open = self.protocol.eof_received()
            if not keep_open:
                self.close()

    @property
    def peer_has_closed(self) -> bool:
        """Return True if the end of the stream has arrived, read or unread (as POLLRDHUP shows)."""
        return self.incoming.arrived_end

    # Writing.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or not data:
            return
        copied = bytes(data)
        if self.watcher is not None:
            self.watcher(self, copied)
        else:
            self.outgoing.send(copied)
        if self.outgoing.size > self._high_water and not self._write_paused:
            self._write_paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def drained(self) -> None:
        """Resume the protocol's writing after the other end has read enough bytes."""
        if self._write_paused and self.outgoing.size <= self._high_water // 4:
            self._loop.call_soon(self._resume_writing, context=self.context)

    def _resume_writing(self) -> None:
        if self._write_paused and not self._closing:
            self._write_paused = False
            self.protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        return 0 if not self._write_paused else self.outgoing.size

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_water = HIGH_WATER if high is None else high

    def can_write_eof(self) -> bool:
        return False

    # Closing.

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self.outgoing.end()
            self._loop.call_soon(self._lose, None, context=self.context)

    def abort(self) -> None:
        self.reset(None)

    def reset(self, error: Exception | None) -> None:
        """Close the connection. The other end gets all sent bytes, then the end of the stream."""
        if not self._closing:
            self._closing = True
            self.outgoing.end()
            self._loop.call_soon(self._lose, error, context=self.context)

    def break_off(self) -> None:
        """End the connection on behalf of the network or the other process, as a RST does."""
        if not self._closing:
            self._closing = True
            error = ConnectionResetError("Connection reset by peer")
            self._loop.call_soon(self._lose, error, context=self.context)

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._forget(self)
            if self._opened:
                self.protocol.connection_lost(error)
