"""New connections beyond max.connection.creation.rate wait for their turn (KIP-612)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from structlog.testing import capture_logs

from oncelog_server.config import load_settings
from oncelog_server.network.admission import PlaintextAdmission
from oncelog_server.network.connection import Connection
from oncelog_server.network.connection_handshake import AUTHENTICATION_MS
from oncelog_server.network.listener import Limits, Listener
from oncelog_server.network.new_connections import NewConnections, connection_rates
from oncelog_server.quotas.connection_rates import ConnectionRates
from oncelog_server.quotas.entities import Quota, entity_of
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.quotas.windows import Windows
from oncelog_server.settings.model import Settings
from tests.server.network.test_connection_rate import DEADLINE_S, FRAME, Echo, ManualClock

LISTENER = "PLAINTEXT"
# The shortest windows, so that the test takes no time: a connection in each of 20 ms.
WINDOWS = Windows(2, 20)
LIMIT = 50
FREE = 1


class World:
    """A listener that accepts one connection in 20 ms."""

    def __init__(self, most_waiting: int, limit: int) -> None:
        self.clock = ManualClock()
        self.quotas = QuotaGate(self.clock.monotonic_ms)
        limits = Limits.of(Settings(socket_listen_backlog_size=most_waiting))
        rates = ConnectionRates(None, {LISTENER: limit}, WINDOWS)
        self.listener = Listener(Echo(), limits, self.clock, self.quotas, rates)
        self.port = 0
        # A writer that is garbage-collected would close its connection.
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection, send a request, and wait until the listener has the connection."""
        before = self.listener.accepted
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        writer.write(FRAME)
        while self.listener.accepted == before:  # noqa: ASYNC110 - waits for turns of the loop
            await asyncio.sleep(0)
        return reader, writer

    async def use_up(self) -> None:
        """Open the connections that need not wait."""
        for _ in range(FREE):
            reader, _writer = await self.connect()
            assert await reader.readexactly(4) == b"ping"

    @property
    def waiting(self) -> list[Connection]:
        listener = self.listener
        return [
            found
            for found in listener.connections
            if not found.is_counted and found not in listener._throttled
        ]

    async def served(self, reader: asyncio.StreamReader) -> bool:
        """Return True if the response is there, after the turns of the loop that it needs."""
        for _ in range(20):
            await asyncio.sleep(0)
        return bool(reader._buffer)  # type: ignore[attr-defined]


@asynccontextmanager
async def world(most_waiting: int = 50, limit: int = LIMIT) -> AsyncIterator[World]:
    made = World(most_waiting, limit)
    _, made.port = await made.listener.bind(PlaintextAdmission(LISTENER), "127.0.0.1", 0)
    await made.listener.accept()
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield made
    finally:
        for writer in made.writers:
            writer.close()
        await made.listener.stop(0.1)


async def test_connections_beyond_the_rate_are_served_one_after_the_other() -> None:
    async with world() as made:
        await made.use_up()
        readers = [(await made.connect())[0] for _ in range(3)]
        assert len(made.waiting) == 3
        assert not await made.served(readers[0])
        for number, reader in enumerate(readers):
            made.clock.ms += WINDOWS.length_ms
            assert await reader.readexactly(4) == b"ping"
            assert len(made.waiting) == 2 - number


async def test_what_a_waiting_client_sends_stays_in_the_system() -> None:
    """uvloop reads once although reading is paused. It reads at most what the buffer of a
    connection holds."""
    async with world() as made:
        await made.use_up()
        _, writer = await made.connect()
        (waiting,) = made.waiting
        writer.write(((1 << 20).to_bytes(4, "big") + bytes(1 << 20)) * 64)
        unsent, before = writer.transport.get_write_buffer_size(), -1
        while unsent != before:
            for _ in range(100):
                await asyncio.sleep(0)
            unsent, before = writer.transport.get_write_buffer_size(), unsent
        assert unsent > 0
        assert waiting.held_bytes < 1 << 20


async def test_the_time_of_a_waiting_client_begins_with_its_admission() -> None:
    async with world() as made:
        await made.use_up()
        await made.connect()
        (waiting,) = made.waiting
        waiting._handshake._stages.stage = None  # type: ignore[union-attr]  # not READY yet
        assert waiting.delay(2 * AUTHENTICATION_MS) is None
        made.clock.ms += WINDOWS.length_ms
        while made.waiting:  # noqa: ASYNC110 - waits for turns of the loop
            await asyncio.sleep(0.001)
        assert waiting.delay(made.clock.ms + AUTHENTICATION_MS) is None
        assert waiting.delay(made.clock.ms + AUTHENTICATION_MS + 1) is not None


async def test_a_client_that_gives_up_leaves_its_turn_and_counts() -> None:
    async with world() as made:
        await made.use_up()
        _, gone = await made.connect()
        reader, _ = await made.connect()
        gone.close()
        made.clock.ms += WINDOWS.length_ms
        while len(made.waiting) > 1:  # noqa: ASYNC110 - waits for turns of the loop
            await asyncio.sleep(0.001)
        assert not await made.served(reader)
        made.clock.ms += WINDOWS.length_ms
        assert await reader.readexactly(4) == b"ping"


async def test_a_connection_that_the_broker_closes_before_its_turn_counts_for_no_limit() -> None:
    async with world() as made:
        await made.use_up()
        with suppress(ConnectionResetError):
            closed, _ = await made.connect()
            (waiting,) = made.waiting
            waiting.close("idle")
            assert await closed.read() == b""
        reader, _ = await made.connect()
        while not await made.served(reader):
            made.clock.ms += WINDOWS.length_ms
            await asyncio.sleep(0.001)  # a turn of a real timer
        assert made.listener._per_listener[LISTENER] == FREE + 1


async def test_no_more_clients_wait_than_in_the_queue_of_the_system() -> None:
    async with world(most_waiting=1) as made:
        await made.use_up()
        await made.connect()
        await made.connect()
        with capture_logs() as events, suppress(ConnectionResetError):
            refused, _ = await made.connect()
            assert await refused.read() == b""
        assert [event["event"] for event in events] == ["too many new connections of one listener"]
        assert len(made.waiting) == 2


async def test_a_connection_beyond_the_rate_of_its_address_does_not_count_for_others() -> None:
    async with world(limit=2 * LIMIT) as made:
        # One connection in the measured ten seconds.
        made.quotas.follow({entity_of([("ip", "127.0.0.1")]): {Quota.CONNECTION: 0.1}})
        reader, _ = await made.connect()
        assert await reader.readexactly(4) == b"ping"
        for _ in range(5):
            refused, _ = await made.connect()
            assert not made.waiting
            assert not await made.served(refused)
        made.quotas.follow({})
        reader, _ = await made.connect()
        assert await reader.readexactly(4) == b"ping"
        await made.connect()
        assert len(made.waiting) == 1


def test_a_connection_that_waits_holds_the_limits_when_its_turn_comes() -> None:
    """`admit` may refuse a connection that has waited."""

    class Waiting:
        is_open = True

        def __init__(self) -> None:
            self.done: list[str] = []

        def wait(self) -> None:
            self.done.append("wait")

        def admitted(self) -> None:
            self.done.append("admitted")

        def refused(self) -> None:
            self.done.append("refused")

    class Mutes:
        def __init__(self) -> None:
            self.calls: list[tuple[int, object]] = []

        def add(self, until_ms: int, unmute: object) -> int:
            self.calls.append((until_ms, unmute))
            return 0

    mutes, answers = Mutes(), iter([True, False, True])
    clock = ManualClock()
    rates = ConnectionRates(None, {LISTENER: 0}, WINDOWS)
    made: NewConnections[Waiting] = NewConnections(
        rates,
        lambda _: next(answers),
        mutes,  # type: ignore[arg-type]
        clock.monotonic_ms,
        50,
    )
    connections = [Waiting() for _ in range(3)]
    assert all(made.opened(connection, LISTENER) for connection in connections)
    for _ in connections:
        until_ms, call = mutes.calls.pop()
        assert not mutes.calls
        clock.ms = until_ms
        call()  # type: ignore[operator]
    assert [connection.done for connection in connections] == [
        ["wait", "admitted"],
        ["wait", "refused"],
        ["wait", "admitted"],
    ]


@pytest.mark.parametrize(
    ("assignments", "clients", "brokers"),
    [
        ([], None, None),
        (["max.connection.creation.rate=1"], 1, 1),
        (["listener.name.brokers.max.connection.creation.rate=3"], None, 3),
        (
            [
                "max.connection.creation.rate=2",
                "listener.name.brokers.max.connection.creation.rate=3",
            ],
            2,
            3,
        ),
    ],
)
def test_a_listener_without_its_own_limit_has_that_of_the_broker(
    assignments: list[str], clients: int | None, brokers: int | None
) -> None:
    """Connections of other brokers do not count for the limit of the broker."""
    settings = load_settings(
        assignments=[
            "listeners=CLIENTS://:9092,BROKERS://:9093",
            "listener.security.protocol.map=CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
            "inter.broker.listener.name=BROKERS",
            "quota.window.num=2",
            *assignments,
        ]
    ).settings
    rates = connection_rates(settings)
    if rates is None:
        assert clients is brokers is None
        return

    def free(listener: str) -> int | None:
        """Return the number of connections that need not wait, None if there are many."""
        return next((count for count in range(100) if rates.record(listener, 0)), None)

    assert (free("BROKERS"), free("CLIENTS")) == (brokers, clients)
