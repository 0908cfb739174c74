"""Connections that never complete a frame, with a manual clock. A frame has a deadline, a
connection a limit of idle time, and unfinished requests a limit of bytes (H3, H6, N3)."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable

import pytest

from oncelog_server.deferred import Deferred
from oncelog_server.network import sweep as sweeping
from oncelog_server.network.admission import PlaintextAdmission
from oncelog_server.network.connection import BACKLOG_BYTES
from oncelog_server.network.listener import Limits, Listener
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.requests.frame_deadline import FRAME_BYTES_PER_S, FRAME_DEADLINE_MS
from oncelog_server.requests.response import EncodedResponse, Parts
from oncelog_server.requests.session import Session

DEADLINE_S = 10
IDLE_MS = 600_000
HELD_BYTES = 8 << 20


class ManualClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def monotonic_ns(self) -> int:
        return self.ms * 1_000_000

    def boottime_ms(self) -> int:
        return self.ms


class Echo:
    """A server that responds with the frame of the request. A frame that begins with `park` gets
    its response when the test completes the entry in `parked`."""

    def __init__(self) -> None:
        self.parked: list[Deferred[Parts]] = []

    def serve(self, frame: memoryview, session: Session) -> EncodedResponse:
        if bytes(frame[:4]) == b"park":
            self.parked.append(Deferred())
            return self.parked[-1]
        return [bytes(frame)]


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition, with a deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110  # a listener reports no read
            await asyncio.sleep(0.005)


class World:
    """A listener on a free port."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.requests = Echo()
        limits = Limits(
            max_connections=100,
            max_connections_per_address=100,
            per_address_overrides={},
            max_request_bytes=100 << 20,
            queued_max_request_bytes=HELD_BYTES,
            max_idle_ms=IDLE_MS,
            backlog=50,
            receive_buffer_bytes=-1,
            tls_receive_buffer_bytes=-1,
            send_buffer_bytes=102_400,
            spin_us=0,
        )
        self.listener = Listener(
            self.requests, limits, self.clock, QuotaGate(self.clock.monotonic_ms)
        )
        self.port = 0

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def arrived(self, count: int) -> None:
        """Wait until the listener holds at least `count` bytes of unfinished requests."""
        await until(
            lambda: sum(connection.held_bytes for connection in self.listener.connections) >= count
        )


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(sweeping, "SWEEP_MS", 10)
    world = World()
    _, world.port = await world.listener.bind(PlaintextAdmission("PLAINTEXT"), "127.0.0.1", 0)
    await world.listener.accept()
    yield world
    await world.listener.stop(0.1)


async def closed(reader: asyncio.StreamReader) -> bool:
    """Wait for the next byte. Return True if the peer closes the connection instead."""
    async with asyncio.timeout(DEADLINE_S):
        try:
            return await reader.read(1) == b""
        except ConnectionResetError:
            return True


async def echoes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    writer.write(struct.pack(">i", 4) + b"ping")
    async with asyncio.timeout(DEADLINE_S):
        return await reader.readexactly(4) == b"ping"


async def test_h6_a_slow_frame_closes_its_connection_at_the_deadline(world: World) -> None:
    """A byte now and then does not extend the deadline of a frame."""
    slow_reader, slow = await world.connect()
    half_length_reader, half_length = await world.connect()
    reader, writer = await world.connect()
    slow.write(struct.pack(">i", 1000) + b"x")
    half_length.write(b"\0\0")
    await world.arrived(1)
    for _ in range(4):
        world.clock.ms += FRAME_DEADLINE_MS // 3 + 1
        slow.write(b"x")
        assert await echoes(reader, writer)
    assert await closed(slow_reader)
    assert await closed(half_length_reader)
    assert await echoes(reader, writer)
    for connection in (slow, half_length, writer):
        connection.close()


async def test_a_slow_frame_that_makes_progress_is_served(world: World) -> None:
    """A megabyte over a slow link takes minutes, with pauses of at most 29 s between its bytes."""
    reader, writer = await world.connect()
    other_reader, other = await world.connect()
    step_ms = FRAME_DEADLINE_MS - 1000
    piece = bytes(2 * FRAME_BYTES_PER_S * step_ms // 1000)
    pieces = 20
    writer.write(struct.pack(">i", pieces * len(piece)))
    for count in range(1, pieces + 1):
        writer.write(piece)
        if count < pieces:
            await world.arrived(count * len(piece))
            world.clock.ms += step_ms
        # Give the listener time to check its connections. A check of a connection that stays open
        # has no visible effect, so the test cannot wait for one.
        for _ in range(5):
            assert await echoes(other_reader, other)
            await asyncio.sleep(0.005)
    async with asyncio.timeout(DEADLINE_S):
        await reader.readexactly(pieces * len(piece))
    writer.close()
    other.close()


async def test_h6_a_stalled_frame_closes_its_connection_however_many_bytes_have_arrived(
    world: World,
) -> None:
    reader, writer = await world.connect()
    writer.write(struct.pack(">i", 4 << 20) + bytes(2 << 20))
    await world.arrived(2 << 20)
    await until(
        lambda: all(
            connection._reading._deadline._seen_bytes >= 2 << 20  # type: ignore[union-attr]
            for connection in world.listener.connections
        )
    )
    world.clock.ms += FRAME_DEADLINE_MS + 1
    assert await closed(reader)
    writer.close()


async def test_a_frame_does_not_age_while_the_broker_does_not_read_it(world: World) -> None:
    """While an earlier request waits for a minute, the broker does not read, and the rest of a
    frame stays in the socket. That delay does not count against the client."""
    reader, writer = await world.connect()
    writer.write(struct.pack(">i", 4) + b"park")
    await until(lambda: world.requests.parked)
    frame = struct.pack(">i", 996) + bytes(996)
    frames = BACKLOG_BYTES // len(frame)
    writer.write(frame * frames)
    await world.arrived(frames * len(frame))
    writer.write(frame + frame[:500])
    await world.arrived((frames + 1) * len(frame) + 1)
    other_reader, other = await world.connect()
    world.clock.ms += 2 * FRAME_DEADLINE_MS
    # Give the listener time to check its connections. A check of a connection that stays open has
    # no visible effect, so the test cannot wait for one.
    for _ in range(20):
        assert await echoes(other_reader, other)
        await asyncio.sleep(0.005)
    assert len(world.listener.connections) == 2
    world.requests.parked[0].complete([b"done"])
    writer.write(frame[500:])
    async with asyncio.timeout(DEADLINE_S):
        assert await reader.readexactly(4) == b"done"
        await reader.readexactly((frames + 2) * 996)
    writer.close()
    other.close()


async def test_n3_an_idle_connection_is_closed(world: World) -> None:
    reader, writer = await world.connect()
    assert await echoes(reader, writer)
    async with asyncio.timeout(DEADLINE_S):
        # Wait until the listener has checked its connections: the check clears `heard`.
        while any(connection.heard for connection in world.listener.connections):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    world.clock.ms += IDLE_MS + 1
    assert await closed(reader)
    writer.close()


async def test_h3_the_connection_with_the_most_memory_is_closed_at_the_memory_limit(
    world: World,
) -> None:
    """The broker keeps connections that hold little memory. The declared size of a frame does not
    count."""
    modest_reader, modest = await world.connect()
    modest.write(struct.pack(">i", 100 << 20) + bytes(1000))
    greedy_reader, greedy = await world.connect()
    greedy.write(struct.pack(">i", 100 << 20) + bytes(HELD_BYTES))
    assert await closed(greedy_reader)
    assert len(world.listener.connections) == 1
    modest.close()
    greedy.close()
    assert await closed(modest_reader)
