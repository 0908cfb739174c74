"""TLS between the transport of a socket and a connection.

To the socket's transport this is a protocol, and to the connection a transport. The connection is
made before the handshake, so that it counts, and its limits of time hold, from the start. All bytes
that arrived before the client closed are delivered, even if the connection is not reading at that
time. Neither uvloop's TLS nor asyncio's delivers them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Final, Protocol, cast

from oncelog_protocol.tls.engine import TlsEngine, TlsFailed
from oncelog_server.security.sasl.exchange import AuthenticationRefused
from oncelog_server.storage.files import Buffer

# Encrypted bytes of one read. All TLS connections of a listener share the buffer.
READ_BYTES: Final = 256 << 10


class Application(Protocol):
    """The connection above TLS."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def tls_established(self, certificate: bytes | None) -> None: ...

    def tls_failed(self, reason: str) -> None: ...

    def get_buffer(self, sizehint: int) -> memoryview: ...

    def buffer_updated(self, nbytes: int) -> None: ...

    def eof_received(self) -> bool: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, error: Exception | None) -> None: ...


class TlsTransport(asyncio.BufferedProtocol, asyncio.Transport):
    """One TLS connection. `shared` receives encrypted bytes, which are taken out of it at once."""

    def __init__(
        self, new_engine: Callable[[], TlsEngine], application: Application, shared: memoryview
    ) -> None:
        asyncio.Transport.__init__(self)
        self._new_engine = new_engine
        self._application = application
        self._shared = shared
        self._transport: asyncio.Transport | None = None
        self._has_received = False
        self._reading = True
        # True if the connection knows that the client has closed its side.
        self._end_given = False
        self._closing = False

    # --- the protocol of the socket's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._application.connection_made(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._application.connection_lost(error)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._shared

    def buffer_updated(self, nbytes: int) -> None:
        self._has_received = True
        engine = self._engine
        engine.received(self._shared[:nbytes])
        if self._reading or engine.is_open:
            # Not by `_guard`: two calls less for each request.
            try:
                self._progress()
            except TlsFailed as failed:
                self._fail(failed)
        elif self._transport is not None:
            # uvloop begins to read after `connection_made`, although `connection_made` has paused
            # reading.
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Return True to keep the transport open until the connection closes it."""
        if not self._has_received:
            return False
        self._engine.received_eof()
        self._guard(self._progress)
        return True

    def pause_writing(self) -> None:
        self._application.pause_writing()

    def resume_writing(self) -> None:
        self._application.resume_writing()

    # --- in

    @cached_property
    def _engine(self) -> TlsEngine:
        """The engine, which is made at the client's first byte: a silent client costs no memory."""
        return self._new_engine()

    def _progress(self) -> None:
        """Continue with the bytes that the engine has."""
        engine = self._engine
        if not engine.is_open:
            self._handshake()
        if engine.is_open:
            self._deliver(engine)

    def _handshake(self) -> None:
        done = self._engine.handshake()
        self._flush()
        if done:
            try:
                self._application.tls_established(self._engine.peer_certificate())
            except AuthenticationRefused as refused:
                self._application.tls_failed(refused.reason)
                self.close()

    def _deliver(self, engine: TlsEngine) -> None:
        """Hand decrypted bytes to the connection, until it pauses or no more are there."""
        while self._reading and not self.is_closing():
            buffer = self._application.get_buffer(-1)
            count = engine.read(buffer)
            if not count:
                break
            self._application.buffer_updated(count)
            if count < len(buffer) and not engine.has_ended:
                # Another read would return 0.
                self._flush()
                return
        else:
            return
        self._flush()  # the engine's own messages, as for a key update
        if engine.peer_closed and not self._end_given:
            self._end_given = True
            if not self._application.eof_received():
                self.close()

    def _guard(self, step: Callable[[], None]) -> None:
        """Run a step. A failure of TLS ends this connection, after the alert has been sent."""
        try:
            step()
        except TlsFailed as failed:
            self._fail(failed)

    def _fail(self, failed: TlsFailed) -> None:
        self._application.tls_failed(failed.reason)
        self._flush()
        if self._transport is not None:
            self._closing = True
            self._transport.close()

    def _flush(self) -> None:
        data = self._engine.outgoing()
        if data and self._transport is not None:
            self._transport.write(data)

    # --- the transport of the connection

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return True  # the outbox must not write to the socket itself
        return default if self._transport is None else self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._closing or self._transport is None or self._transport.is_closing()

    def close(self) -> None:
        """Close when the written bytes have left, after the alert close_notify."""
        if self._transport is not None and not self._closing:
            self._closing = True
            if self._has_received:
                self._engine.close()
                self._flush()
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._closing = True
            self._transport.abort()

    def pause_reading(self) -> None:
        if self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._reading and self._transport is not None:
            self._reading = True
            self._transport.resume_reading()
            # The connection has called this method, so it gets the bytes later.
            asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        # The pause may have begun before the handshake.
        if self._reading and self._transport is not None and self._has_received:
            self._guard(self._progress)

    def write(self, data: Buffer) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Write, unless the connection is closing: a response may come after the connection's end.
        The write may also raise a failure of TLS that the connection has not read yet."""
        if self.is_closing():
            return
        engine = self._engine
        try:
            for data in list_of_data:
                engine.write(data)
        except TlsFailed as failed:
            self._fail(failed)
        else:
            self._flush()

    def get_write_buffer_size(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()
