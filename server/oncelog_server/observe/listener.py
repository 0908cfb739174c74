"""A small HTTP/1.1 server for metrics and health checks. It runs only if a setting names its port.

A page is made in slices with the loop's other work in between, so that even a scrape of 10,000
partitions delays a request by at most one slice. A connection gets one response; only the head of
its request is read.

A client that does not read its response holds a connection and a page until RESPONSE_TIMEOUT_S at
most. The number of pages is limited. All other responses fit into the buffer of their socket, so
they end at once, and pages never keep a health check out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from typing import Final

import structlog

from oncelog_server.metrics.exposition import CONTENT_TYPE, slices
from oncelog_server.network.binding import BindAddress, bind, listen

log = structlog.get_logger("oncelog.metrics")

MAX_REQUEST_BYTES: Final = 8192
REQUEST_TIMEOUT_S: Final = 10
RESPONSE_TIMEOUT_S: Final = 30
MAX_PAGES: Final = 8
MAX_CONNECTIONS: Final = 64
BACKLOG: Final = 100

_WHERE: Final = b"metrics are at /metrics, health checks at /health/live and /health/ready\n"
_METRICS: Final = b"/metrics"
# The loop has served this request, so the broker lives.
_LIVE: Final = b"/health/live"
_READY: Final = b"/health/ready"
_TEXT: Final = "text/plain; charset=utf-8"


class MetricsListener:
    """The server. `lines` returns the lines of a new page. `unready` returns the reason for which
    the broker cannot serve all requests, or an empty text."""

    def __init__(
        self,
        lines: Callable[[], Iterator[str]],
        unready: Callable[[], str] = lambda: "",
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._lines = lines
        self._unready = unready
        self._on_stop = on_stop
        self._server: asyncio.Server | None = None
        self._place: BindAddress | None = None
        self._scrapes: set[asyncio.Task[None]] = set()
        # Connections with an incomplete request, oldest first.
        self._silent: dict[asyncio.StreamWriter, None] = {}
        # Connections that take a page, oldest first.
        self._sending: dict[asyncio.StreamWriter, None] = {}
        # The pages that are made or sent.
        self._pages = 0

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Bind the port and return the address. No scraper is served before `accept`. Raises
        CannotListen if it cannot be bound."""
        way_out = "stop it, or oncelog.metrics.port=0 picks a free one, -1 turns metrics off"
        self._place = BindAddress(host, port, "oncelog.metrics.host", way_out)
        self._server = await bind(self._new_protocol, self._place, BACKLOG)
        bound = self._server.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    async def accept(self) -> None:
        """Begin to serve. Raises CannotListen if the socket cannot listen."""
        assert self._server is not None
        assert self._place is not None
        await listen(self._server, self._place, BACKLOG)

    def _new_protocol(self) -> asyncio.StreamReaderProtocol:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_REQUEST_BYTES, loop=loop)
        return asyncio.StreamReaderProtocol(reader, self._connected, loop=loop)

    def stop(self) -> None:
        self._on_stop()
        if self._server is not None:
            self._server.close()
        for scrape in self._scrapes:
            scrape.cancel()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a new connection. At the limit, close the oldest connection with an incomplete
        request: a scraper sends its request at once, so slow connections cannot keep it out. If no
        request is incomplete, close the new connection."""
        if len(self._scrapes) >= MAX_CONNECTIONS:
            oldest = next(iter(self._silent), None)
            if oldest is None:
                writer.transport.abort()
                return
            del self._silent[oldest]
            oldest.transport.abort()
        self._silent[writer] = None
        # `drain` then returns when the socket has taken the whole response.
        writer.transport.set_write_buffer_limits(0)
        scrape = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._scrapes.add(scrape)
        scrape.add_done_callback(partial(self._ended, writer))

    def _ended(self, writer: asyncio.StreamWriter, scrape: asyncio.Task[None]) -> None:
        """Close the connection. A task that was canceled before its first step comes here too. If a
        part of the response is not sent, it is dropped: a close would wait for the client to read
        it, without a limit."""
        self._scrapes.discard(scrape)
        self._silent.pop(writer, None)
        writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            self._silent.pop(writer, None)
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                await self._respond(head, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # The scraper has disconnected, is too slow, or does not speak HTTP.
        except Exception:
            log.exception("scrape failed")

    async def _respond(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            status, kind, body = HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b""
        elif path == _LIVE:
            status, kind, body = HTTPStatus.OK, _TEXT, b"live\n"
        elif path == _READY:
            reason = self._unready()
            status = HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK
            kind, body = _TEXT, f"{reason or 'ready'}\n".encode()
        elif path != _METRICS:
            status, kind, body = HTTPStatus.NOT_FOUND, _TEXT, _WHERE
        elif self._has_place():
            await self._send_page(method, writer)
            return
        else:
            status, kind, body = HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b""
        await _send(writer, method, status, kind, body)

    def _has_place(self) -> bool:
        """Return True if a further page may be made. At the limit, close the connection that has
        been taking its page for the longest time. So clients that do not read keep no scraper out.
        Return False if no page is being sent."""
        if self._pages < MAX_PAGES:
            return True
        oldest = next(iter(self._sending), None)
        if oldest is None:
            return False
        del self._sending[oldest]
        oldest.transport.abort()
        self._pages -= 1
        return True

    async def _send_page(self, method: bytes, writer: asyncio.StreamWriter) -> None:
        self._pages += 1
        try:
            portions = []
            for portion in slices(self._lines()):
                portions.append(portion)
                await asyncio.sleep(0)
            page = b"".join(portions)
            portions.clear()
        except BaseException:
            self._pages -= 1
            raise
        self._sending[writer] = None
        try:
            await _send(writer, method, HTTPStatus.OK, CONTENT_TYPE, page)
        finally:
            if writer in self._sending:
                del self._sending[writer]
                self._pages -= 1


async def _send(
    writer: asyncio.StreamWriter, method: bytes, status: HTTPStatus, kind: str, body: bytes
) -> None:
    """Send a response, to a HEAD request without its body. Return when the socket has all of it.
    Raises ConnectionError if the client has disconnected."""
    writer.write(
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    )
    if method != b"HEAD":
        writer.write(body)
    await writer.drain()
