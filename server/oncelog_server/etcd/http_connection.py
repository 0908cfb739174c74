"""A connection of HTTP/1.1 for one request at a time. The bytes are h11's."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, cast

import h11

from oncelog_server.cluster.store import FinalFailure

_CLOSED: Final = "etcd has closed the connection"


class HttpConnection(asyncio.Protocol):
    """Pauses reading while no call waits for bytes, so a slow reader holds little memory.

    All calls raise OSError if the connection has ended or the peer breaks HTTP.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._http = h11.Connection(h11.CLIENT)
        self._transport: asyncio.Transport | None = None
        self._arrived: asyncio.Future[None] | None = None
        self._lost: OSError | None = None
        self._has_ended = False

    # --- asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        if self._arrived is None and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._has_ended = True
        self._http.receive_data(b"")
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = _loss(error)
        self._wake()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    # --- requests

    @property
    def is_reusable(self) -> bool:
        """Return True if the next request can be sent on this connection."""
        is_open = self._transport is not None and not self._transport.is_closing()
        return is_open and self._lost is None and self._http.our_state is h11.IDLE

    def send(self, path: str, headers: dict[str, str], body: bytes) -> None:
        """Send a POST request."""
        assert self._transport is not None
        fields = {
            "Host": self._host,
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **headers,
        }
        request = h11.Request(method="POST", target=path, headers=list(fields.items()))
        parts = (request, h11.Data(data=body), h11.EndOfMessage())
        self._transport.write(b"".join(self._http.send(part) or b"" for part in parts))

    async def head(self) -> int:
        """Return the HTTP status of the response."""
        event = await self._event()
        while isinstance(event, h11.InformationalResponse):
            event = await self._event()
        if not isinstance(event, h11.Response):
            raise ConnectionError(_CLOSED)
        return event.status_code

    async def data(self) -> bytes:
        """Return the next bytes of the body; no bytes at its end."""
        event = await self._event()
        if isinstance(event, h11.Data):
            return bytes(event.data)
        if isinstance(event, h11.EndOfMessage):
            if self._http.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
                self._http.start_next_cycle()
            return b""
        raise ConnectionError(_CLOSED)

    async def body(self) -> bytes:
        """Return the whole body of the response."""
        parts = []
        while part := await self.data():
            parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        """End the connection. A call that waits raises OSError."""
        if self._transport is not None:
            self._transport.abort()

    async def _event(self) -> h11.Event:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                reason = _CLOSED if self._has_ended else f"etcd breaks HTTP: {error}"
                raise ConnectionError(reason) from error
            if event is h11.NEED_DATA:
                await self._more()
            elif event is h11.PAUSED:
                raise ConnectionError(_CLOSED)
            else:
                return cast("h11.Event", event)

    async def _more(self) -> None:
        if self._lost is not None:
            raise self._lost
        assert self._transport is not None
        self._arrived = asyncio.get_running_loop().create_future()
        self._transport.resume_reading()
        try:
            await self._arrived
        finally:
            self._arrived = None


def _loss(error: Exception | None) -> OSError:
    if error is None:
        return ConnectionResetError(_CLOSED)
    if not isinstance(error, ssl.SSLError):
        return ConnectionResetError(f"{_CLOSED}: {error}")
    from oncelog_protocol.tls.failures import reason_of

    kind = FinalFailure if refuses_certificate(error) else ConnectionResetError
    return kind(f"{_CLOSED}: {reason_of(error, is_server=False)}")


def refuses_certificate(error: BaseException | None) -> bool:
    """Return True if one side of a connection does not accept the certificate of the other side.
    With TLS 1.3, etcd says so only after the handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return True
    reason = error.reason or "" if isinstance(error, ssl.SSLError) else ""
    return "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason)
