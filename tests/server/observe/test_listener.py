"""GET /metrics: what is answered, and that nobody else waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest

from oncelog_server.network.listener import PortInUse
from oncelog_server.observe import listener as listening
from oncelog_server.observe.exposition import CONTENT_TYPE, LINES_PER_SLICE
from oncelog_server.observe.listener import MAX_REQUEST_BYTES, MetricsListener

PAGE = ["a 1\n", "b 2\n"]


@pytest.fixture
async def listener() -> AsyncIterator[MetricsListener]:
    one = MetricsListener(lambda: iter(PAGE))
    yield one
    one.stop()


async def started(listener: MetricsListener) -> int:
    _, port = await listener.bind("127.0.0.1", 0)
    await listener.accept()
    return port


async def ask(port: int, request: bytes) -> tuple[str, dict[str, str], bytes]:
    """Status line, headers and body; the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines if line), body


async def test_a_scrape_gets_the_page(listener: MetricsListener) -> None:
    port = await started(listener)
    for path in (b"/metrics", b"/metrics?name=x"):
        status, headers, body = await ask(port, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status == "HTTP/1.1 200 OK"
        assert headers["Content-Type"] == CONTENT_TYPE
        assert int(headers["Content-Length"]) == len(body)
        assert body.decode() == "".join(PAGE)


async def test_head_has_the_length_and_no_page(listener: MetricsListener) -> None:
    _, headers, body = await ask(await started(listener), b"HEAD /metrics HTTP/1.1\r\n\r\n")
    assert (int(headers["Content-Length"]), body) == (8, b"")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET / HTTP/1.1", "404"),
        ("GET /metricsx HTTP/1.1", "404"),
        ("POST /metrics HTTP/1.1", "405"),
    ],
)
async def test_anything_else_is_refused(
    listener: MetricsListener, request_line: str, status: str
) -> None:
    found, _, _ = await ask(await started(listener), f"{request_line}\r\n\r\n".encode())
    assert found.split()[1] == status


async def test_what_is_no_request_is_closed_without_an_answer(
    listener: MetricsListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "REQUEST_TIMEOUT_S", 0.05)
    port = await started(listener)
    for nonsense in (b"\0\0\0\x10\0\x12", b"GET /metrics", b"x" * (MAX_REQUEST_BYTES + 9)):
        assert await ask(port, nonsense) == ("", {}, b"")


async def test_a_port_in_use_is_said_by_the_name_of_its_setting(listener: MetricsListener) -> None:
    port = await started(listener)
    with pytest.raises(PortInUse, match=r"oncelog\.metrics\.port"):
        await MetricsListener(lambda: iter(PAGE)).bind("127.0.0.1", port)


async def test_a_page_that_fails_closes_the_connection_and_the_next_one_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages: list[Iterator[str]] = [iter(PAGE), failing()]
    listener = MetricsListener(lambda: pages.pop())
    port = await started(listener)
    assert await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n") == ("", {}, b"")
    status, _, _ = await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert status == "HTTP/1.1 200 OK"
    listener.stop()


def failing() -> Iterator[str]:
    yield "a 1\n"
    raise RuntimeError("a defect")


async def test_others_have_their_turn_between_the_slices_of_a_page() -> None:
    """Whatever the page's length: the loop never does more than one slice at a time."""
    turns = 0
    taken: list[int] = []

    def lines() -> Iterator[str]:
        for _ in range(50 * LINES_PER_SLICE):
            taken.append(turns)
            yield "a 1\n"

    listener = MetricsListener(lines)
    port = await started(listener)
    asked = asyncio.create_task(ask(port, b"GET /metrics HTTP/1.1\r\n\r\n"))
    while not asked.done():
        turns += 1
        await asyncio.sleep(0)
    assert len((await asked)[2]) == 50 * LINES_PER_SLICE * 4
    assert max(map(taken.count, set(taken))) <= LINES_PER_SLICE
    listener.stop()


async def test_connections_that_ask_nothing_are_bounded_in_number_and_time(
    listener: MetricsListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(listening, "REQUEST_TIMEOUT_S", 0.2)
    port = await started(listener)
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    with suppress(ConnectionError):
        assert await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n") == ("", {}, b"")
    for reader, writer in silent:
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
    status, _, _ = await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert status == "HTTP/1.1 200 OK"


async def test_more_scrapes_at_once_than_make_sense_are_refused() -> None:
    busy = asyncio.Event()
    pages = 0

    def endless() -> Iterator[str]:
        nonlocal pages
        pages += 1
        if pages == listening.MAX_PAGES:
            busy.set()
        while True:
            yield "a 1\n"

    listener = MetricsListener(endless)
    port = await started(listener)
    slow = [
        asyncio.create_task(ask(port, b"GET /metrics HTTP/1.1\r\n\r\n"))
        for _ in range(listening.MAX_PAGES)
    ]
    await asyncio.wait_for(busy.wait(), 10)
    status, _, _ = await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert status.split()[1] == "503"
    listener.stop()
    assert all(answer == ("", {}, b"") for answer in await asyncio.gather(*slow))
