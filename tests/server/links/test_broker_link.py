"""Requests of any API to another broker, and what happens if that broker hangs, closes the
connection, moves or sends nonsense."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from oncelog_protocol.codecs import encode
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from oncelog_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncelog_server.broker import Broker
from oncelog_server.cluster.image import BrokerImage, ClusterImage
from oncelog_server.cluster.records import EndpointRecord
from oncelog_server.environment import OsEnvironment
from oncelog_server.links.broker_link import CLOSED, BrokerLink, BrokerLinks
from oncelog_server.settings.model import Settings
from tests.harness.waiting import turns_until
from tests.server.manual_timers import ManualTimer, ManualTimers

DEADLINE_S = 60
Responses = list[Any]


async def responses(link: BrokerLink, *requests: tuple[object, int]) -> Responses:
    found: Responses = []
    for request, version in requests:
        link.send(request, version, found.append)
    await turns_until(lambda: len(found) == len(requests))
    return found


@pytest.fixture
async def links(tmp_path: Any) -> AsyncIterator[BrokerLinks]:
    """Yield links from a broker to itself, as if to another broker."""
    settings = Settings(log_dirs=(str(tmp_path),), listeners=("PLAINTEXT://127.0.0.1:0",))
    broker = Broker(settings, OsEnvironment(settings.data_directory))
    await broker.start()
    links = BrokerLinks(lambda: broker.metadata.image, "PLAINTEXT", "test")
    yield links
    links.close()
    await broker.stop()


def link_to(links: BrokerLinks) -> BrokerLink:
    link = links.to(1)
    assert link is not None
    return link


async def test_requests_of_any_api_share_one_connection_in_order(links: BrokerLinks) -> None:
    transaction = AddPartitionsToTxnTransaction("t", 7, 0, False, [])
    add = AddPartitionsToTxnRequest(transactions=[transaction])
    link = link_to(links)
    first, second, third = await responses(
        link, (ApiVersionsRequest(), 3), (add, 5), (ApiVersionsRequest(), 0)
    )
    assert isinstance(first, ApiVersionsResponse)
    assert isinstance(third, ApiVersionsResponse)
    (added,) = second.results_by_transaction
    assert added.transactional_id == "t"
    assert second.error_code == ErrorCode.NONE
    assert link_to(links) is link


async def test_a_link_that_broke_connects_again(links: BrokerLinks) -> None:
    link = link_to(links)
    await responses(link, (ApiVersionsRequest(), 3))
    link.connection_lost(None)
    (found,) = await responses(link, (ApiVersionsRequest(), 3))
    assert isinstance(found, ApiVersionsResponse)


async def test_a_request_on_a_closed_link_is_lost_at_once_and_connects_nothing(
    links: BrokerLinks,
) -> None:
    """Requests that have gathered behind the last one must not wait for a dead host."""
    link = link_to(links)
    link.close()
    assert await responses(link, (ApiVersionsRequest(), 3)) == [None]
    assert link._connecting is None


# --- other brokers that fail


def image(port: int) -> ClusterImage:
    endpoint = EndpointRecord("PLAINTEXT", "127.0.0.1", port)
    return ClusterImage(brokers={1: BrokerImage(1, 0, "", (endpoint,), None, {})})


class Peer:
    """A server that handles each connection with the function `serve`."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.serve: Callable[[asyncio.StreamWriter], object] = lambda writer: None
        self.port = 0

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        await reader.read(10)
        self.serve(writer)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for writer in self.writers:
            writer.close()
        await asyncio.sleep(0)


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    """Yield a server that reads the first bytes and does not respond."""
    peer = Peer()
    await peer.start()
    yield peer
    await peer.stop()


async def lost(port: int, timeout_s: float = DEADLINE_S) -> Responses:
    link = BrokerLink("127.0.0.1", port, "test", timeout_s)
    found = await responses(link, (ApiVersionsRequest(), 3), (ApiVersionsRequest(), 3))
    link.close()
    return found


async def test_no_process_listens() -> None:
    with socket.socket() as silent:  # bound, so that no other process can listen on the port
        silent.bind(("127.0.0.1", 0))
        assert await lost(silent.getsockname()[1]) == [None, None]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="breaks off"),
        pytest.param(b"\x00\x00\x00\x04\x7f\xff\xff\xff", id="a response to nothing"),
        pytest.param(b"\xff\xff\xff\xff", id="no frame"),
        pytest.param(b"\x00\x00\x00\x05\x00\x00\x00\x00\x09", id="half a response"),
    ],
)
async def test_requests_fail_if_the_broker_closes_the_connection_or_sends_nonsense(
    peer: Peer, answer: bytes
) -> None:
    def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    peer.serve = serve
    assert await lost(peer.port) == [None, None]


@pytest.mark.parametrize("has_reset", [True, False])
async def test_a_link_that_is_closed_at_once_is_logged_once(peer: Peer, has_reset: bool) -> None:
    """A broker closes a connection above max.connections without a response."""

    def serve(writer: asyncio.StreamWriter) -> None:
        if has_reset:
            writer.transport.abort()
        writer.close()

    peer.serve = serve
    with capture_logs() as events:
        assert await lost(peer.port) == [None, None]
        link = BrokerLink("127.0.0.1", peer.port, "test")
        for _ in range(3):
            assert await responses(link, (ApiVersionsRequest(), 3)) == [None]
        link.close()
    expected = {
        "event": "no link to broker",
        "log_level": "warning",
        "host": "127.0.0.1",
        "port": peer.port,
        "purpose": "test",
        "reason": CLOSED,
    }
    assert events == [expected, expected]  # one of each link


async def test_a_link_that_has_served_a_request_may_end_without_a_log(links: BrokerLinks) -> None:
    link = link_to(links)
    with capture_logs() as events:
        await responses(link, (ApiVersionsRequest(), 3))
        assert link._transport is not None
        link._transport.abort()
        await turns_until(lambda: link._transport is None)
        await responses(link, (ApiVersionsRequest(), 3))
        link.close()
        await turns_until(lambda: link._transport is None)
    assert [event for event in events if event["event"] == "no link to broker"] == []


async def test_a_broker_that_does_not_respond_times_out(peer: Peer) -> None:
    assert await lost(peer.port, timeout_s=0.05) == [None, None]


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.is_aborted = True


class Loop:
    """The time of a loop, and its timers."""

    def __init__(self) -> None:
        self.timers = ManualTimers()

    def time(self) -> float:
        return self.timers.now_ms / 1000

    def call_at(self, when_s: float, callback: Callable[[], None]) -> ManualTimer:
        return self.timers.call_later(round(when_s * 1000) - self.timers.now_ms, callback)


async def test_the_timeout_begins_with_the_latest_request_or_response() -> None:
    """One timer serves all requests. A link in use for longer than the timeout stays."""
    link, wire, loop = BrokerLink("broker", 1, "test", timeout_s=1.0), Wire(), Loop()
    link._loop = cast(asyncio.AbstractEventLoop, loop)
    link.connection_made(cast(asyncio.BaseTransport, wire))
    found: Responses = []

    def respond(correlation_id: int) -> None:
        body = struct.pack(">i", correlation_id) + encode(ApiVersionsResponse(), 3)
        data = struct.pack(">i", len(body)) + body
        link.get_buffer(-1)[: len(data)] = data
        link.buffer_updated(len(data))

    for correlation_id in range(5):
        link.send(ApiVersionsRequest(), 3, found.append)
        loop.timers.advance(900)
        respond(correlation_id)
    loop.timers.advance(5_000)
    assert (len(found), wire.is_aborted, loop.timers.waiting) == (5, False, [])
    for _ in range(2):
        link.send(ApiVersionsRequest(), 3, found.append)
    loop.timers.advance(900)
    respond(5)
    loop.timers.advance(999)
    assert not wire.is_aborted
    loop.timers.advance(1)
    assert wire.is_aborted


async def test_the_links_of_a_purpose_have_its_timeout(peer: Peer) -> None:
    """replica.socket.timeout.ms for fetchers: a connection that has vanished stalls a fetcher for
    this time only."""
    links = BrokerLinks(lambda: image(peer.port), "PLAINTEXT", "test", timeout_s=0.05)
    assert await responses(link_to(links), (ApiVersionsRequest(), 3)) == [None]
    links.close()


async def test_I17_a_broker_that_moves_leaves_no_request_waiting_for_its_old_address(
    peer: Peer,
) -> None:
    now = [image(peer.port)]
    links = BrokerLinks(lambda: now[0], "PLAINTEXT", "test")
    old = link_to(links)
    found: Responses = []
    old.send(ApiVersionsRequest(), 3, found.append)
    await turns_until(lambda: peer.writers)
    now[0] = image(1)
    try:
        assert link_to(links) is not old
        assert found == [None]
    finally:
        links.close()
        old.close()


def test_a_broker_that_is_not_alive_has_no_link() -> None:
    assert BrokerLinks(ClusterImage, "PLAINTEXT", "test").to(5) is None
