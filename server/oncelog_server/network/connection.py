"""One client connection. Frames come in, and responses leave in the order of the requests.
Back-pressure works in both directions."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable, Iterator
from typing import Final, Protocol, cast

import structlog

from oncelog_protocol.errors import ProtocolError
from oncelog_server.deferred import Deferred
from oncelog_server.network.admission import Admission
from oncelog_server.network.connection_handshake import ConnectionHandshake
from oncelog_server.network.mute import Mute
from oncelog_server.network.mutes import Mutes
from oncelog_server.network.outbox import Outbox
from oncelog_server.network.reading import Reading
from oncelog_server.network.receive_mark import ReceiveMark
from oncelog_server.network.turn import Turn
from oncelog_server.network.writables import Writables
from oncelog_server.requests.backlog import Backlog
from oncelog_server.requests.frame_reader import FrameReader, SharedBuffer
from oncelog_server.requests.pending_responses import PendingResponses
from oncelog_server.requests.response import EncodedResponse, Parts, RequestFailed, Serve
from oncelog_server.requests.session import Session

log = structlog.get_logger("oncelog.network")

# Maximum number of bytes to read while a request is parked. These reads only serve to notice a
# disconnect.
BACKLOG_BYTES: Final = 64 << 10
# The limits of one connection's turn: requests, time, and bytes of responses (roughly). A read may
# contain 18,000 requests (scenario H8). A request may take 20 ms (scenario H67).
TURN_REQUESTS: Final = 64
TURN_MS: Final = 10
TURN_BYTES: Final = 1 << 20
# Number of requests between two counts of the bytes of responses.
_COUNTED: Final = 8
_HUNG_UP: Final = getattr(select, "POLLRDHUP", 0)


class Server(Protocol):
    """The broker behind a connection."""

    shared_buffer: SharedBuffer
    turn: Turn
    writables: Writables
    mutes: Mutes
    max_request_bytes: int
    # SO_SNDBUF; -1 leaves it to the system.
    send_buffer_bytes: int

    def serve(self, frame: memoryview, session: Session) -> EncodedResponse:
        """Serve a request. Raises ProtocolError to close the connection."""
        ...

    def connection_opened(self, connection: Connection) -> bool:
        """Register the connection. Return False if there are too many connections. The caller must
        then close this connection."""
        ...

    def connection_closed(self, connection: Connection) -> None: ...

    def log_closing(self, address: str, reason: str) -> None:
        """Log that the broker closes a connection of this client. Repetitions are counted and not
        logged one by one."""
        ...

    def monotonic_ms(self) -> int: ...


class Connection(asyncio.BufferedProtocol):
    """One connection. Requests are handled synchronously, one after the other. A request with a
    deferred response parks the connection. A parked connection serves no further request until the
    response is complete, unless the response lets the connection serve the next requests
    (`Deferred.order`)."""

    def __init__(
        self, server: Server, admission: Admission, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._server = server
        self._admission = admission
        # Serves the next frame: the dispatcher, or the authentication before it.
        self._serve_frame: Serve = server.serve
        self._loop = loop
        self._frames = FrameReader(server.shared_buffer, server.max_request_bytes)
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        # These are None before the transport is open, and after its end.
        self.session: Session | None = None
        self._handshake: ConnectionHandshake | None = None
        self._mute: Mute | None = None
        self._reading: Reading | None = None
        self._pending = PendingResponses()
        # Frames that arrived after a parked request, or that are too many for one turn.
        self._backlog = Backlog()
        # The number of pauses in effect. The transport, the outbox, a quota and the wait for an
        # admission cause at most one pause each.
        self._write_paused = 0
        self._poll: select.poll | None = None
        # True if the peer has closed its side while frames were in the backlog. The connection then
        # closes after the backlog.
        self._ended = False
        self._draining = False
        # True if `_resume` is due in the next turn of the loop.
        self._resumes_soon = False
        self.last_active_ms = 0
        # True if bytes were read since `last_active_ms` was set. With this flag, a read need not
        # read the clock.
        self.heard = False
        # The bytes that were to be sent at the last call of `takes_responses`.
        self._unsent_bytes = 0
        # True if the connection counts for the limits of connections. Only its listener uses this.
        self.is_counted = False

    # --- life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        server = self._server
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = opened = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if server.send_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, server.send_buffer_bytes)
        name = transport.get_extra_info("peername")
        host = str(name[0]) if isinstance(name, tuple) else "unknown"
        self.last_active_ms = server.monotonic_ms()
        self._handshake = ConnectionHandshake(
            self, self._admission, server.serve, server.max_request_bytes, self.last_active_ms
        )
        self.session = self._handshake.transport_open(host, self._has_hung_up, self.mute)
        self._mute = Mute(self, server.mutes, server.monotonic_ms)
        mark = ReceiveMark.of(opened)
        self._reading = Reading(opened, self._frames, server.monotonic_ms, mark)
        self._outbox = Outbox(opened, self._loop, server.turn, server.writables, self)
        if server.connection_opened(self):
            self._handshake.begin_sasl()
        else:
            opened.abort()
        if not self._reading.is_active:
            # uvloop begins to read after this call, although reading is paused.
            self._loop.call_soon(self._reading.pause_again)

    def serve_by(self, serve: Serve, max_frame_bytes: int | None = None) -> None:
        """Serve all further frames by `serve`. `max_frame_bytes` is their new limit, None for no
        change."""
        self._serve_frame = serve
        if max_frame_bytes is not None:
            self._frames.limit = max_frame_bytes

    def tls_established(self, certificate: bytes | None) -> None:
        """Begin the next stage after TLS. Raises AuthenticationRefused."""
        assert self._handshake is not None
        self._handshake.tls_established(certificate)

    def tls_failed(self, reason: str) -> None:
        """Log the reason. The transport closes the connection."""
        self._log_end(reason)

    def _log_end(self, reason: str) -> None:
        """Log a refused client, or the end of the connection of an authenticated client."""
        if self._handshake is None:
            return
        if self._handshake.is_complete:
            self._server.log_closing(self._address(), reason)
        else:
            self._handshake.refused(reason)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connection_closed(self)
        if self._mute is not None:
            self._mute.discard()
        if self._outbox is not None:
            self._outbox.close()
        self._pending.cancel()
        self._backlog.clear()
        self._transport = None
        # These parts and an authentication refer to this connection. Such a cycle would stay until
        # a full collection.
        self.session = self._handshake = self._mute = self._reading = self._outbox = None
        self._serve_frame = self._server.serve

    def close(self, reason: str) -> None:
        """End the connection now, for a reason of the broker. Log the reason."""
        if self._transport is not None:
            self._server.log_closing(self._address(), reason)
            self._transport.abort()

    def fail(self, reason: str) -> None:
        """End the connection now, because of its client. Log the reason."""
        if self._transport is not None:
            self._log_end(reason)
            self._transport.abort()

    def drain(self) -> None:
        """Take no more requests, because the broker stops. Close the connection when the pending
        responses are sent."""
        self._draining = True
        self._pause_reading()
        if self._pending.is_empty:
            self._close_written()

    def _close_written(self) -> None:
        """Close when the sent responses have left."""
        if self._transport is not None:
            assert self._outbox is not None
            self._outbox.finish()

    def _address(self) -> str:
        return self.session.address if self.session is not None else "unknown"

    def _has_hung_up(self) -> bool:
        """Return True if the connection is closing or the peer has closed its side. The peer will
        then not read the response (KAFKA-17754)."""
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
    def listener(self) -> str:
        """Return the name of the listener that has accepted this connection."""
        return self._admission.listener

    @property
    def held_bytes(self) -> int:
        return self._frames.held_bytes + self._backlog.waiting_bytes

    def takes_responses(self) -> bool:
        """Return True if the client has taken bytes of a response since the last call. Such a
        connection is not idle, as in Kafka's Selector."""
        before = self._unsent_bytes
        self._unsent_bytes = 0 if self._outbox is None else self._outbox.unsent_bytes
        return before > 0 and before != self._unsent_bytes

    def delay(self, now_ms: int) -> str | None:
        """Return the reason if an incomplete frame or the authentication takes too long, else None.
        The caller calls this method at least every few seconds."""
        if self._handshake is not None and self._handshake.is_late(now_ms):
            return "the client did not authenticate in time"
        if self._reading is not None and self._reading.is_late(now_ms):
            return "a request was not complete in time"
        return None

    # --- in

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.heard = True
        frame = self._frames.whole(nbytes)
        if frame is not None:
            if self._pending.queue or self._is_held:
                self._handle(iter((frame,)))
            else:
                self._handle_alone(frame)
            return
        if self._frames.advance(nbytes):
            if self._reading is not None:
                self._reading.advanced()
            return
        self._handle(self._frames.received(nbytes))
        if self._reading is not None:
            self._reading.received()

    def eof_received(self) -> bool:
        """Return True to keep the connection open until the frames in the backlog are served, as
        Kafka does. A producer with acks=0 may close its side right after its last request."""
        self._ended = self._backlog.waiting_bytes > 0 and not self._draining
        if self._reading is not None:
            self._reading.end()
        return self._ended

    def _handle_alone(self, frame: memoryview) -> None:
        """Serve a single frame, without the bookkeeping of `_handle`."""
        session = self.session
        assert session is not None
        try:
            answer = self._serve_frame(frame, session)
        except Exception as error:
            self._failed(error)
            return
        if type(answer) is list:
            self._send(answer)
        elif isinstance(answer, Deferred):
            self._owe(answer)

    def _handle(self, frames: Iterator[memoryview]) -> None:
        """Serve the frames of one turn, and put the remaining frames into the backlog."""
        try:
            if not self._is_held:
                self._serve(frames)
            for frame in frames:
                self._put_aside(frame)
        except Exception as error:
            self._failed(error)

    def _serve(self, frames: Iterator[memoryview]) -> None:
        """Serve frames until a request parks the connection or the turn is over. The remaining
        frames stay in `frames`. If a request raises an exception, the responses of the requests
        before it are sent first."""
        ready: Parts = []
        left = TURN_REQUESTS
        monotonic_ms = self._server.monotonic_ms
        ends_ms = monotonic_ms() + TURN_MS
        # The session is fixed for the turn, because a frame that changes the session parks the
        # connection.
        session = self.session
        assert session is not None
        serve = self._serve_frame
        pending = self._pending
        try:
            for frame in frames:
                answer = serve(frame, session)
                if type(answer) is list and not pending.queue:
                    ready += answer
                elif isinstance(answer, Deferred):
                    if ready:
                        # A later request may complete this response. The response must not overtake
                        # the earlier responses.
                        self._send(ready)
                        ready = []
                    self._owe(answer)
                    if pending.parked is not None or self._write_paused:
                        break
                elif answer is not None:
                    pending.add_complete(answer)
                    if pending.parked is not None:
                        break
                if self._write_paused:
                    break
                left -= 1
                if monotonic_ms() >= ends_ms or (
                    not left % _COUNTED and (not left or sum(map(len, ready)) > TURN_BYTES)
                ):
                    self._resume_soon()
                    break
        finally:
            if ready:
                self._send(ready)

    def _failed(self, error: Exception) -> None:
        if self._outbox is not None:
            self._outbox.flush()
        if isinstance(error, ProtocolError):
            self.fail(str(error)[:200])
            return
        # This is a defect. The connection is closed, and the operator gets this log event.
        asked = error.asked if isinstance(error, RequestFailed) else {}
        cause = error.__cause__ if isinstance(error, RequestFailed) else error
        log.error("request failed", peer=self._address(), **asked, exc_info=cause)
        self.close("a request failed")

    @property
    def _is_held(self) -> bool:
        """Return True if a request that arrives now is not served at once: a request is parked,
        frames are in the backlog, the peer does not read, or the broker stops."""
        return (
            self._pending.parked is not None
            or self._write_paused > 0
            or self._backlog.waiting_bytes > 0
            or self._draining
        )

    @property
    def _is_paused(self) -> bool:
        return self._reading is not None and not self._reading.is_active

    def _put_aside(self, frame: memoryview) -> None:
        self._backlog.add(frame)
        if self._backlog.waiting_bytes > BACKLOG_BYTES:
            self._pause_reading()

    def _resume_soon(self) -> None:
        """Call `_resume` in the next turn of the loop, once: each call is a whole turn."""
        if not self._resumes_soon:
            self._resumes_soon = True
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        """Serve the backlog, then read from the socket again."""
        self._resumes_soon = False
        if self._pending.parked is not None or self._write_paused or self._draining:
            return
        if self._backlog.waiting_bytes:
            try:
                self._serve(self._backlog.frames())
            except Exception as error:
                self._failed(error)
                return
            if self._backlog.waiting_bytes or self._write_paused:
                return
        if self._ended:
            self._close_written()
        elif self._reading is not None:
            self._reading.resume()

    def _pause_reading(self) -> None:
        if self._reading is not None:
            self._reading.pause()

    # --- out

    def _owe(self, answer: Deferred[Parts]) -> None:
        self._pending.add(answer)
        answer.on_complete(lambda parts: self._guard(answer, self._answered))
        answer.on_abandon(lambda: self._guard(answer, self._abandoned))

    def _guard(self, answer: Deferred[Parts], take: Callable[[Deferred[Parts]], None]) -> None:
        """Call `take`. A failure closes this connection, and is not raised in the code that
        completed the response."""
        try:
            take(answer)
        except Exception as error:
            self._failed(error)

    def _abandoned(self, answer: Deferred[Parts]) -> None:
        if answer.failure is not None:
            raise answer.failure
        self.close("a request failed")

    def _answered(self, answer: Deferred[Parts]) -> None:
        """Send the responses that are next in order."""
        ready = self._pending.completed(answer)
        if ready:
            self._send(ready)
        if self._draining:
            if self._pending.is_empty:
                self._close_written()
        elif self._pending.parked is None and (self._backlog.waiting_bytes or self._is_paused):
            # The backlog is served later, not inside the call that has just completed the response.
            self._resume_soon()

    def _send(self, parts: Parts) -> None:
        if parts and self._outbox is not None:
            self._outbox.send(parts)

    def pause_writing(self) -> None:
        """Serve no more requests until the peer reads (scenario N4)."""
        if self._outbox is not None:
            self._outbox.block()
        self.hold_requests()

    def resume_writing(self) -> None:
        if self._outbox is not None:
            self._outbox.unblock()
        self.release_requests()

    def hold_requests(self) -> None:
        self._write_paused += 1
        self._pause_reading()

    def release_requests(self) -> None:
        self._write_paused -= 1
        self._resume()

    # --- quotas

    @property
    def is_open(self) -> bool:
        """Return True if the connection is not closed."""
        return self._transport is not None and not self._transport.is_closing()

    def wait(self) -> None:
        """Read nothing, not even a handshake, before `admitted` (max.connection.creation.rate)."""
        assert self._handshake is not None
        self._handshake.began_ms = None
        self.hold_requests()

    def admitted(self) -> None:
        """Begin to read. The times of authentication and of inactivity begin now."""
        assert self._handshake is not None
        self.last_active_ms = self._handshake.began_ms = self._server.monotonic_ms()
        self.release_requests()

    def refused(self) -> None:
        """Close at once. The caller logs the reason."""
        if self._transport is not None:
            self._transport.abort()

    def close_after(self, delay_ms: int, reason: str) -> None:
        """Serve no request, and close the connection after a time (KIP-612)."""
        if self._mute is not None:
            self._mute.close_after(delay_ms, reason)

    def mute(self, throttle_ms: int) -> None:
        """Serve no further request for a time (KIP-219). Responses are still sent."""
        if self._mute is not None:
            self._mute.extend(throttle_ms)
