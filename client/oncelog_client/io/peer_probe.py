"""Finds out the protocol of a peer that does not speak Kafka's protocol. Each probe makes one more
connection, and one request.

Only an interactive command (`fail_fast`) uses the probe, and never with a healthy broker.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from oncelog_client.connect_failures import (
    FIRST_BYTES,
    Address,
    ConnectCause,
    ConnectFailure,
    foreign_protocol,
)
from oncelog_client.errors import ConnectError

from .connection import Connection

# After this time without a response a peer counts as silent. A broker responds to ApiVersions in a
# few ms.
_SILENT_AFTER_S: Final = 0.3
# A local peer responds within a few ms, and the user waits at a prompt.
_TIMEOUT_S: Final = 0.4
_HTTP_REQUEST: Final = b"GET / HTTP/1.0\r\n\r\n"


async def negotiate_or_tell(connection: Connection) -> None:
    """Negotiate versions. If the peer closes the connection or is silent, find out its protocol.
    Raises ConnectError, with the cause TLS or HTTP for these protocols.
    """
    address = connection.address
    negotiating = asyncio.ensure_future(connection.negotiate())
    try:
        await asyncio.wait({negotiating}, timeout=_SILENT_AFTER_S)
        # A peer with versions speaks Kafka's protocol, and may need longer to authenticate.
        is_silent = not (negotiating.done() or connection.has_versions)
        if is_silent and await speaks_http(address):
            raise ConnectError(ConnectFailure(address, ConnectCause.HTTP))
        await negotiating
    except ConnectError as error:
        closed = any(failure.cause is ConnectCause.CLOSED for failure in error.failures)
        if closed and not connection.has_versions and await speaks_tls(address):
            raise ConnectError(ConnectFailure(address, ConnectCause.TLS)) from error
        raise
    finally:
        negotiating.cancel()
        await asyncio.wait({negotiating})
        if not negotiating.cancelled():
            negotiating.exception()


async def speaks_tls(address: Address) -> bool:
    """Return True if the peer responds to a TLS hello. A TLS server closes any other connection
    without a response."""
    return await _response_to(address, _client_hello()) is ConnectCause.TLS


async def speaks_http(address: Address) -> bool:
    """Return True if the peer responds to an HTTP request. An HTTP server is silent after a request
    of Kafka, because it waits for the end of a line."""
    return await _response_to(address, _HTTP_REQUEST) is ConnectCause.HTTP


async def _response_to(address: Address, question: bytes) -> ConnectCause | None:
    with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(*address)
            try:
                writer.write(question)
                return foreign_protocol(await reader.readexactly(FIRST_BYTES))
            finally:
                writer.transport.abort()
    return None


def _client_hello() -> bytes:
    # The import is slow, and rarely needed.
    import ssl

    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()
