"""GET /metrics: its responses. A scrape delays no other client."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
import uvloop

from oncelog_server.metrics.exposition import CONTENT_TYPE, LINES_PER_SLICE
from oncelog_server.network.binding import CannotListen
from oncelog_server.observe import listener as listening
from oncelog_server.observe.listener import MAX_REQUEST_BYTES, MetricsListener
from tests.harness.descriptors import own_sockets
from tests.harness.waiting import turns_until

PAGE = ["a 1\n", "b 2\n"]
SCRAPE = b"GET /metrics HTTP/1.1\r\n\r\n"
OK = "HTTP/1.1 200 OK"
DEADLINE_S = 60
# More than the buffers of two sockets hold.
LARGE = 16 * 2**20
CLOSED: tuple[str, dict[str, str], bytes] = ("", {}, b"")


@asynccontextmanager
async def serving(
    lines: Callable[[], Iterator[str]], unready: Callable[[], str] = lambda: ""
) -> AsyncIterator[int]:
    """Yield the port of a listener, and stop the listener in the end."""
    listener = MetricsListener(lines, unready)
    _, port = await listener.bind("127.0.0.1", 0)
    await listener.accept()
    try:
        yield port
    finally:
        listener.stop()


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with serving(lambda: iter(PAGE)) as listener:
        yield listener


async def ask(port: int, request: bytes) -> tuple[str, dict[str, str], bytes]:
    """Send a request. Return the status line, headers and body, read until the server closes the
    connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), DEADLINE_S)
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines if line), body


async def test_a_scrape_gets_the_page(port: int) -> None:
    for path in (b"/metrics", b"/metrics?name=x"):
        status, headers, body = await ask(port, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status == OK
        assert headers["Content-Type"] == CONTENT_TYPE
        assert int(headers["Content-Length"]) == len(body)
        assert body.decode() == "".join(PAGE)


async def test_head_has_the_length_and_no_page(port: int) -> None:
    _, headers, body = await ask(port, b"HEAD /metrics HTTP/1.1\r\n\r\n")
    assert (int(headers["Content-Length"]), body) == (8, b"")


@pytest.mark.parametrize("reason", ["", "the broker stops"])
async def test_health_checks_say_whether_the_broker_lives_and_is_ready(reason: str) -> None:
    async with serving(lambda: iter(PAGE), lambda: reason) as port:
        status, _, body = await ask(port, b"GET /health/live HTTP/1.1\r\n\r\n")
        assert (status, body) == (OK, b"live\n")
        status, _, body = await ask(port, b"GET /health/ready HTTP/1.1\r\n\r\n")
        assert status.split()[1] == ("503" if reason else "200")
        assert body.decode() == f"{reason or 'ready'}\n"


async def test_a_stop_is_passed_on() -> None:
    stopped: list[str] = []
    listener = MetricsListener(lambda: iter(PAGE), on_stop=lambda: stopped.append("stopped"))
    await listener.bind("127.0.0.1", 0)
    listener.stop()
    assert stopped == ["stopped"]


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET / HTTP/1.1", "404"),
        ("GET /metricsx HTTP/1.1", "404"),
        ("POST /metrics HTTP/1.1", "405"),
    ],
)
async def test_anything_else_is_refused(port: int, request_line: str, status: str) -> None:
    found, _, _ = await ask(port, f"{request_line}\r\n\r\n".encode())
    assert found.split()[1] == status


async def test_an_invalid_request_is_closed_without_a_response(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "REQUEST_TIMEOUT_S", 0.05)
    for nonsense in (b"\0\0\0\x10\0\x12", b"GET /metrics", b"x" * (MAX_REQUEST_BYTES + 9)):
        assert await ask(port, nonsense) == CLOSED


async def test_the_error_of_a_port_in_use_names_the_setting(port: int) -> None:
    with pytest.raises(CannotListen, match=r"oncelog\.metrics\.port"):
        await MetricsListener(lambda: iter(PAGE)).bind("127.0.0.1", port)


async def test_a_page_that_fails_closes_the_connection_and_the_next_one_is_served() -> None:
    pages: list[Iterator[str]] = [iter(PAGE), failing()]
    async with serving(lambda: pages.pop()) as port:
        assert await ask(port, SCRAPE) == CLOSED
        assert (await ask(port, SCRAPE))[0] == OK


def failing() -> Iterator[str]:
    yield "a 1\n"
    raise RuntimeError("a defect")


async def test_other_clients_are_served_between_the_slices_of_a_page() -> None:
    """The loop does one slice at a time, however long the page is."""
    turn = 0
    made_in_turn: Counter[int] = Counter()

    def lines() -> Iterator[str]:
        for _ in range(50 * LINES_PER_SLICE):
            made_in_turn[turn] += 1
            yield "a 1\n"

    async with serving(lines) as port:
        asked = asyncio.create_task(ask(port, SCRAPE))
        while not asked.done():
            turn += 1
            await asyncio.sleep(0)
        _, _, body = await asked
    assert len(body) == 50 * LINES_PER_SLICE * 4
    assert max(made_in_turn.values()) <= LINES_PER_SLICE


async def test_silent_connections_keep_no_scraper_out(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener limits the number of silent connections. A new connection replaces the
    connection that has been silent for the longest time."""
    monkeypatch.setattr(listening, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(listening, "REQUEST_TIMEOUT_S", 600)
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
    for reader, _ in silent[:4]:
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""
    assert (await ask(port, SCRAPE))[0] == OK
    for _, writer in silent:
        writer.close()


async def test_silent_connections_are_closed_after_a_time(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(listening, "REQUEST_TIMEOUT_S", 0.05)
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    for reader, writer in silent:
        assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""
        writer.close()
    monkeypatch.setattr(listening, "REQUEST_TIMEOUT_S", 600)
    assert (await ask(port, SCRAPE))[0] == OK


async def test_too_many_scrapes_at_once_are_refused() -> None:
    busy = asyncio.Event()
    over = False
    pages = 0

    def long() -> Iterator[str]:
        nonlocal pages
        pages += 1
        if pages == listening.MAX_PAGES:
            busy.set()
        while not over:
            yield "a 1\n"

    async with serving(long) as port:
        slow = [asyncio.create_task(ask(port, SCRAPE)) for _ in range(listening.MAX_PAGES)]
        await asyncio.wait_for(busy.wait(), DEADLINE_S)
        status, _, _ = await ask(port, SCRAPE)
        assert status.split()[1] == "503"
        over = True
        assert {status for status, _, _ in await asyncio.gather(*slow)} == {OK}


async def test_scrapes_one_after_the_other_are_never_refused(port: int) -> None:
    for _ in range(listening.MAX_PAGES + 1):
        assert (await ask(port, SCRAPE))[0] == OK


async def test_a_stop_ends_scrapes_in_progress() -> None:
    busy = asyncio.Event()

    def endless() -> Iterator[str]:
        busy.set()
        while True:
            yield "a 1\n"

    async with serving(endless) as port:
        asked = asyncio.create_task(ask(port, SCRAPE))
        await asyncio.wait_for(busy.wait(), DEADLINE_S)
    assert await asked == CLOSED


def large() -> Iterator[str]:
    yield "a" * LARGE


@asynccontextmanager
async def unread(port: int, request: bytes = SCRAPE) -> AsyncIterator[socket.socket]:
    """Yield a connection that has sent the request. The client has not read any of the response,
    and the response has begun to arrive."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, request)
        await turns_until(lambda: has_data(client))
        yield client


def has_data(client: socket.socket) -> bool:
    with suppress(BlockingIOError):
        return bool(client.recv(1, socket.MSG_PEEK))
    return False


def accepted(port: int) -> int:
    """Return how many descriptors of this process belong to connections that a listener of this
    process has accepted."""
    count = 0
    for found in own_sockets():
        with suppress(OSError):  # it has no other end
            found.getpeername()
            count += found.getsockname() == ("127.0.0.1", port)
    return count


async def rest_of(client: socket.socket) -> int:
    """Return the number of bytes up to the end of the connection."""
    loop, size = asyncio.get_running_loop(), 0
    with suppress(ConnectionError):
        while data := await asyncio.wait_for(loop.sock_recv(client, 2**20), DEADLINE_S):
            size += len(data)
    return size


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_client_that_does_not_read_is_disconnected_after_a_time(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker keeps neither the descriptor nor the page."""
    monkeypatch.setattr(listening, "RESPONSE_TIMEOUT_S", 0.2)

    async def main() -> None:
        async with serving(large) as port, unread(port) as client:
            await turns_until(lambda: not accepted(port))
            assert await rest_of(client) < LARGE

    run(main())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_stop_disconnects_a_client_that_does_not_read(run: Callable[..., None]) -> None:
    async def main() -> None:
        async with AsyncExitStack() as clients:
            async with serving(large) as port:
                client = await clients.enter_async_context(unread(port))
            assert await rest_of(client) < LARGE

    run(main())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_whole_page_arrives_at_a_slow_client(run: Callable[..., None]) -> None:
    async def main() -> None:
        async with serving(large) as port, unread(port) as client:
            assert await rest_of(client) > LARGE

    run(main())


async def test_a_stop_closes_a_connection_that_is_not_served_yet() -> None:
    """The task of the connection is canceled before its first step."""
    listener = MetricsListener(lambda: iter(PAGE))
    _, port = await listener.bind("127.0.0.1", 0)
    await listener.accept()
    accept = listener._connected

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accept(reader, writer)
        listener.stop()

    listener._connected = connected  # type: ignore[method-assign]
    assert await ask(port, SCRAPE) == CLOSED


async def test_clients_that_do_not_read_keep_neither_health_checks_nor_scrapers_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the limit of pages, a further page replaces the page that has been sent for the longest
    time."""
    monkeypatch.setattr(listening, "MAX_PAGES", 2)
    monkeypatch.setattr(listening, "MAX_CONNECTIONS", 4)
    async with serving(large) as port, AsyncExitStack() as clients:
        slow = [await clients.enter_async_context(unread(port)) for _ in range(6)]
        for path in (b"live", b"ready"):
            assert (await ask(port, b"GET /health/" + path + b" HTTP/1.1\r\n\r\n"))[0] == OK
        assert (await ask(port, SCRAPE))[0] == OK
        sizes = [await rest_of(client) for client in slow]
    assert [size > LARGE for size in sizes] == [False] * 5 + [True]


async def test_requests_without_a_page_are_served_while_all_pages_are_made() -> None:
    over = False
    made = 0

    def long() -> Iterator[str]:
        nonlocal made
        made += 1
        while not over:
            yield "a 1\n"

    async with serving(long) as port:
        slow = [asyncio.create_task(ask(port, SCRAPE)) for _ in range(listening.MAX_PAGES)]
        await turns_until(lambda: made == listening.MAX_PAGES)
        for _ in range(listening.MAX_CONNECTIONS):
            assert (await ask(port, SCRAPE))[0].split()[1] == "503"
        assert (await ask(port, b"GET /health/live HTTP/1.1\r\n\r\n"))[0] == OK
        over = True
        assert {status for status, _, _ in await asyncio.gather(*slow)} == {OK}
