"""GET /metrics over HTTP/1.1: one small server for scrapers, off unless a setting names its port.

A page is made in slices with the loop's other work in between, so that a scrape of 10,000
partitions holds up no request. One answer per connection; nothing is read but a request without a
body.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import structlog

from oncelog_server.network.listener import PortInUse
from oncelog_server.observe.exposition import CONTENT_TYPE, slices

log = structlog.get_logger("oncelog.metrics")

MAX_REQUEST_BYTES: Final = 8192
REQUEST_TIMEOUT_S: Final = 10
ANSWER_TIMEOUT_S: Final = 30
MAX_PAGES: Final = 8
MAX_CONNECTIONS: Final = 64

_WHERE: Final = b"metrics are at /metrics\n"
_TEXT: Final = "text/plain; charset=utf-8"


class MetricsListener:
    """`lines` makes the page anew."""

    def __init__(self, lines: Callable[[], Iterator[str]]) -> None:
        self._lines = lines
        self._server: asyncio.Server | None = None
        self._scrapes: set[asyncio.Task[None]] = set()
        self._pages = 0

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """The address it got; nobody is answered before `accept`. Raises PortInUse and OSError."""
        try:
            self._server = await asyncio.start_server(
                self._connected,
                host or None,
                port,
                limit=MAX_REQUEST_BYTES,
                reuse_address=True,
                start_serving=False,
            )
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise PortInUse(
                f"port {port} is in use: oncelog.metrics.port=0 picks a free one, -1 none"
            ) from error
        bound = self._server.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    async def accept(self) -> None:
        assert self._server is not None
        await self._server.start_serving()

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for scrape in self._scrapes:
            scrape.cancel()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._scrapes) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        scrape = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._scrapes.add(scrape)
        scrape.add_done_callback(self._scrapes.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await self._answer(head, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # The scraper went away, is too slow, or speaks something else.
        except Exception:
            log.exception("scrape failed")
        finally:
            writer.close()

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            status, kind, body = HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b""
        elif path != b"/metrics":
            status, kind, body = HTTPStatus.NOT_FOUND, _TEXT, _WHERE
        elif self._pages >= MAX_PAGES:
            status, kind, body = HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b""
        else:
            status, kind, body = HTTPStatus.OK, CONTENT_TYPE, await self._page()
        writer.write(
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        )
        if method != b"HEAD":
            writer.write(body)
        with suppress(ConnectionError):
            await writer.drain()

    async def _page(self) -> bytes:
        self._pages += 1
        try:
            portions = []
            for portion in slices(self._lines()):
                portions.append(portion)
                await asyncio.sleep(0)
            return b"".join(portions)
        finally:
            self._pages -= 1
