"""One client: frames in, answers out in the order of the requests, with back-pressure in both
directions."""

from __future__ import annotations

import asyncio
import select
import socket
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol, cast

import structlog

from oncelog_protocol.errors import ProtocolError
from oncelog_server.deferred import Deferred
from oncelog_server.network.backlog import Backlog
from oncelog_server.network.frame_reader import FrameReader, SharedBuffer
from oncelog_server.network.outbox import Outbox, Part
from oncelog_server.network.request_context import Peer
from oncelog_server.network.turn import Turn
from oncelog_server.network.writables import Writables
from oncelog_server.security.authorizer import ANONYMOUS

log = structlog.get_logger("oncelog.network")

Parts = list[Part]
# The parts of an answer, an answer that comes later, or None where the client wants none (acks=0).
Answer = Parts | Deferred[Parts] | None

# Requests of one connection that may be in the broker at once, when their effects are done and only
# their answers wait. Kafka's clients have at most five in flight.
MAX_UNANSWERED: Final = 16
# What is read behind a parked request before reading stops. Reading goes on until then, so that a
# client that goes away is noticed while its request waits.
BACKLOG_BYTES: Final = 64 << 10
# How many requests of one connection are served, for how long, and about how much is answered,
# before others have their turn: a read may hold 18,000 (H8), of which one may take 20 ms (H67).
TURN_REQUESTS: Final = 64
TURN_MS: Final = 10
TURN_BYTES: Final = 1 << 20
# A frame that has begun must go on within this time, and its bytes come this fast on average once
# the time is over: one byte every few seconds holds its memory for ever (H6).
FRAME_DEADLINE_MS: Final = 30_000
FRAME_BYTES_PER_S: Final = 1 << 10
# How many requests apart the bytes are counted.
_COUNTED: Final = 8
_HUNG_UP: Final = getattr(select, "POLLRDHUP", 0)


class RequestFailed(Exception):
    """A request met a defect of ours, which is the cause; `asked` names it for the log."""

    def __init__(self, **asked: object) -> None:
        super().__init__(asked)
        self.asked = asked


class Server(Protocol):
    """What a connection needs of the broker behind it."""

    shared_buffer: SharedBuffer
    turn: Turn
    writables: Writables
    max_request_bytes: int
    # SO_SNDBUF; -1 leaves it to the system.
    send_buffer_bytes: int

    def serve(self, frame: memoryview, peer: Peer) -> Answer:
        """Raises ProtocolError to have the connection closed."""
        ...

    def connection_opened(self, connection: Connection) -> bool:
        """False: there are too many, close it."""
        ...

    def connection_closed(self, connection: Connection) -> None: ...

    def monotonic_ms(self) -> int: ...


class Connection(asyncio.BufferedProtocol):
    """Requests are handled synchronously, one after the other. A request whose answer must wait
    parks the connection (nothing more is served until it is answered), unless its effect has
    already taken place (`Deferred.ordered`): then the next ones are served and only the answers
    wait for their turn."""

    def __init__(self, server: Server, listener: str, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._listener = listener
        self._loop = loop
        self._frames = FrameReader(server.shared_buffer, server.max_request_bytes)
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self.peer: Peer | None = None
        # Answers owed, oldest first: a list once known, a Deferred before.
        self._owed: deque[Parts | Deferred[Parts]] = deque()
        self._parked: Deferred[Parts] | None = None
        # Frames that arrived behind a parked request, or were too many for one turn.
        self._backlog = Backlog()
        # How many of the transport and the outbox have more to write than they should.
        self._write_paused = 0
        self._poll: select.poll | None = None
        self._reading = True
        # The peer has closed its side: nothing more will come.
        self._ended = False
        self._draining = False
        self.last_active_ms = 0
        # Whether anything was read since `last_active_ms` was set: a clock is not read for each.
        self.heard = False
        self._frame_started_ms: int | None = None
        # What `is_frame_late` saw the last time, and since when it has been so.
        self._frame_seen = (0, 0)

    # --- life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._server.send_buffer_bytes > 0:
                size = self._server.send_buffer_bytes
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        name = transport.get_extra_info("peername")
        address = f"/{name[0]}" if isinstance(name, tuple) else "/unknown"
        self.peer = Peer(ANONYMOUS, address, self._listener, self._has_hung_up)
        self._outbox = Outbox(
            self._transport, self._loop, self._server.turn, self._server.writables, self
        )
        self.last_active_ms = self._server.monotonic_ms()
        if not self._server.connection_opened(self):
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connection_closed(self)
        if self._outbox is not None:
            self._outbox.close()
        owed, self._owed = self._owed, deque()
        for answer in owed:
            if isinstance(answer, Deferred):
                answer.cancel()
        self._parked = None
        self._backlog.clear()
        self._transport = None
        # Both refer to this connection: a cycle would wait for a full collection.
        self.peer = None
        self._outbox = None

    def close(self, reason: str) -> None:
        """End the connection now; one log line says why."""
        if self._transport is not None:
            log.info("connection closed", peer=self._address(), reason=reason)
            self._transport.abort()

    def drain(self) -> None:
        """Take no more requests; close once what is owed is answered (a clean stop)."""
        self._draining = True
        self._pause_reading()
        if not self._owed:
            self._close_written()

    def _close_written(self) -> None:
        """Close once what was answered has left."""
        if self._transport is not None:
            assert self._outbox is not None
            self._outbox.finish()

    def _address(self) -> str:
        return self.peer.address if self.peer is not None else "unknown"

    def _has_hung_up(self) -> bool:
        """Whether the peer has closed its side, so that nobody will read the answer
        (KAFKA-17754)."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return True
        sock = transport.get_extra_info("socket")
        if sock is None or not _HUNG_UP:
            return False
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(sock.fileno(), _HUNG_UP)
        return bool(self._poll.poll(0))

    @property
    def held_bytes(self) -> int:
        return self._frames.held_bytes + self._backlog.waiting_bytes

    def is_frame_late(self, now_ms: int) -> bool:
        """Whether an unfinished request has waited too long for more of it; to be asked every few
        seconds."""
        started_ms = self._frame_started_ms
        if started_ms is None:
            return False
        arrived = self._frames.arrived_bytes
        seen, since_ms = self._frame_seen
        if since_ms < started_ms:
            since_ms = started_ms
        elif arrived != seen:
            since_ms = now_ms
        self._frame_seen = arrived, since_ms
        allowed_ms = FRAME_DEADLINE_MS + arrived * 1000 // FRAME_BYTES_PER_S
        return now_ms - since_ms > FRAME_DEADLINE_MS or now_ms - started_ms > allowed_ms

    # --- in

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.heard = True
        frame = self._frames.whole(nbytes)
        if frame is not None:
            if self._owed or self._is_held:
                self._handle(iter((frame,)))
            else:
                self._handle_alone(frame)
            return
        self._handle(self._frames.received(nbytes))
        if not (self._frames.is_within_frame and self._reading):
            self._frame_started_ms = None
        elif self._frame_started_ms is None:
            self._frame_started_ms = self._server.monotonic_ms()

    def eof_received(self) -> bool:
        """What has arrived is served before the connection closes, as by Kafka: a producer with
        acks=0 closes behind requests for which it wants no answer."""
        self._ended = self._backlog.waiting_bytes > 0 and not self._draining
        self._frame_started_ms = None
        return self._ended

    def _handle_alone(self, frame: memoryview) -> None:
        """Serve one frame with nothing before or behind it: `_handle` without its bookkeeping."""
        assert self.peer is not None
        try:
            answer = self._server.serve(frame, self.peer)
        except Exception as error:
            self._failed(error)
            return
        if type(answer) is list:
            self._send(answer)
        elif isinstance(answer, Deferred):
            self._owe(answer)

    def _handle(self, frames: Iterator[memoryview]) -> None:
        """Serve what has arrived as far as its turn goes; put the rest aside."""
        try:
            if not self._is_held:
                self._serve(frames)
            for frame in frames:
                self._put_aside(frame)
        except Exception as error:
            self._failed(error)

    def _serve(self, frames: Iterator[memoryview]) -> None:
        """Serve frames until one parks the connection, or its turn is over: the rest stays in
        `frames`. Raises what a request does, when those before it are answered."""
        ready: Parts = []
        left = TURN_REQUESTS
        monotonic_ms = self._server.monotonic_ms
        ends_ms = monotonic_ms() + TURN_MS
        peer = self.peer
        assert peer is not None
        serve = self._server.serve
        try:
            for frame in frames:
                answer = serve(frame, peer)
                if type(answer) is list and not self._owed:
                    ready += answer
                elif isinstance(answer, Deferred):
                    if ready:
                        # A later request may complete it, and must not have it overtake these.
                        self._send(ready)
                        ready = []
                    self._owe(answer)
                    if self._parked is not None or self._write_paused:
                        break
                elif answer is not None:
                    self._owed.append(answer)
                left -= 1
                if monotonic_ms() >= ends_ms or (
                    not left % _COUNTED and (not left or sum(map(len, ready)) > TURN_BYTES)
                ):
                    self._loop.call_soon(self._resume)
                    break
        finally:
            if ready:
                self._send(ready)

    def _failed(self, error: Exception) -> None:
        if self._outbox is not None:
            self._outbox.flush()
        if isinstance(error, ProtocolError):
            self.close(str(error)[:200])
            return
        # A defect of ours: the client finds out by the closed connection, the operator by this
        # line.
        asked = error.asked if isinstance(error, RequestFailed) else {}
        cause = error.__cause__ if isinstance(error, RequestFailed) else error
        log.error("request failed", peer=self._address(), **asked, exc_info=cause)
        self.close("a request failed")

    @property
    def _is_held(self) -> bool:
        """Whether a request that arrives now has to wait; also behind those put aside before it."""
        return (
            self._parked is not None
            or self._write_paused > 0
            or self._backlog.waiting_bytes > 0
            or self._draining
        )

    def _put_aside(self, frame: memoryview) -> None:
        self._backlog.add(frame)
        if self._backlog.waiting_bytes > BACKLOG_BYTES:
            self._pause_reading()

    def _resume(self) -> None:
        """Serve what was put aside, then read on."""
        if self._parked is not None or self._write_paused or self._draining:
            return
        if self._backlog.waiting_bytes:
            try:
                self._serve(self._backlog.frames())
            except Exception as error:
                self._failed(error)
                return
            if self._backlog.waiting_bytes:
                return
        if self._ended:
            self._close_written()
        else:
            self._resume_reading()

    def _pause_reading(self) -> None:
        if self._reading and self._transport is not None:
            self._reading = False
            self._frame_started_ms = None  # what is not read cannot be late
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._reading and self._transport is not None and not self._transport.is_closing():
            self._reading = True
            if self._frames.is_within_frame:
                self._frame_started_ms = self._server.monotonic_ms()
            self._transport.resume_reading()

    # --- out

    def _owe(self, answer: Deferred[Parts]) -> None:
        self._owed.append(answer)
        if not answer.ordered or len(self._owed) >= MAX_UNANSWERED:
            self._parked = answer
        answer.on_complete(lambda parts: self._guard(answer, self._answered))
        answer.on_abandon(lambda: self._guard(answer, self._abandoned))

    def _guard(self, answer: Deferred[Parts], take: Callable[[Deferred[Parts]], None]) -> None:
        """What fails here fails this connection, not the core that has completed the answer."""
        try:
            take(answer)
        except Exception as error:
            self._failed(error)

    def _abandoned(self, answer: Deferred[Parts]) -> None:
        if answer.failure is not None:
            raise answer.failure
        self.close("a request failed")

    def _answered(self, answer: Deferred[Parts]) -> None:
        """Send whatever is at its turn now."""
        ready: Parts = []
        owed = self._owed
        while owed:
            first = owed[0]
            if isinstance(first, Deferred):
                if not first.done:
                    break
                ready += first.value
            else:
                ready += first
            owed.popleft()
        if self._parked is answer:
            self._parked = None
        if ready:
            self._send(ready)
        if self._draining:
            if not owed:
                self._close_written()
        elif self._parked is None and (self._backlog.waiting_bytes or not self._reading):
            # Not from inside the core that has just completed the answer.
            self._loop.call_soon(self._resume)

    def _send(self, parts: Parts) -> None:
        if parts and self._outbox is not None:
            self._outbox.send(parts)

    def pause_writing(self) -> None:
        """The peer does not read: serve nothing more until it does (N4)."""
        self._write_paused += 1
        self._pause_reading()

    def resume_writing(self) -> None:
        self._write_paused -= 1
        self._resume()
