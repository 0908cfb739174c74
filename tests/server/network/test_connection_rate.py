"""A listener closes the new connections of an address beyond its rate (KIP-612)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from oncelog_server.network import listener as listening
from oncelog_server.network.admission import PlaintextAdmission
from oncelog_server.network.listener import Limits, Listener
from oncelog_server.quotas.entities import Quota, entity_of
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.requests.response import EncodedResponse
from oncelog_server.requests.session import Session
from oncelog_server.settings.model import Settings
from tests.harness.waiting import turns_until

DEADLINE_S = 30
FLOODER = "127.0.0.2"
FRAME = b"\0\0\0\4ping"


class Echo:
    """A server that responds with the frame of the request."""

    def serve(self, frame: memoryview, session: Session) -> EncodedResponse:
        return [bytes(frame)]


class ManualClock:
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


async def test_a_connection_beyond_the_rate_of_its_address_is_not_served_and_closed_later() -> None:
    clock = ManualClock()
    quotas = QuotaGate(clock.monotonic_ms)
    listener = Listener(Echo(), Limits.of(Settings()), clock, quotas)
    _, port = await listener.bind(PlaintextAdmission("PLAINTEXT"), "127.0.0.1", 0)
    await listener.accept()
    # One connection in the windows of ten seconds.
    quotas.follow({entity_of([("ip", "127.0.0.1")]): {Quota.CONNECTION: 0.1}})
    async with asyncio.timeout(DEADLINE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(FRAME)
        assert await reader.readexactly(4) == b"ping"
        refused, other = await asyncio.open_connection("127.0.0.1", port)
        other.write(FRAME)
        writer.write(FRAME)
        assert await reader.readexactly(4) == b"ping"
        assert len(listener.connections) == 2
        clock.ms += 1_000
        with suppress(ConnectionResetError):
            assert await refused.read() == b""
        assert len(listener.connections) == 1
        writer.close()
        other.close()
        await listener.stop(0.1)


@asynccontextmanager
async def flooded(number: int, max_connections: int = 100) -> AsyncIterator[tuple[Listener, int]]:
    """Yield a listener and its port. One address has opened this number of connections before the
    listener accepted one, and all but the first are throttled."""
    clock = ManualClock()
    quotas = QuotaGate(clock.monotonic_ms)
    listener = Listener(Echo(), Limits.of(Settings(max_connections=max_connections)), clock, quotas)
    _, port = await listener.bind(PlaintextAdmission("PLAINTEXT"), "127.0.0.1", 0)
    await listener.accept()
    quotas.follow({entity_of([("ip", FLOODER)]): {Quota.CONNECTION: 0.1}})
    flood = []
    try:
        async with asyncio.timeout(DEADLINE_S):
            for _ in range(number):  # in one turn of the loop
                flood.append(
                    socket.create_connection(("127.0.0.1", port), source_address=(FLOODER, 0))
                )
            await turns_until(lambda: listener.accepted == number)
            yield listener, port
    finally:
        for opened in flood:
            opened.close()
        await listener.stop(0.1)


async def test_throttled_connections_use_up_no_limit() -> None:
    """Kafka's ConnectionQuotas.inc throttles a connection before it is counted."""
    async with flooded(6, max_connections=2) as (listener, port):
        assert len(listener.connections) == 6
        assert listener.by_listener() == [("PLAINTEXT", 1)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(FRAME)
        assert await reader.readexactly(4) == b"ping"
        writer.close()


async def test_the_number_of_throttled_connections_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listening, "MOST_THROTTLED", 3)
    async with flooded(9) as (listener, _):
        await turns_until(lambda: len(listener.connections) == 4)
        assert listener.by_listener() == [("PLAINTEXT", 1)]


def test_throttled_connections_of_one_turn_of_the_loop_are_bounded_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """asyncio's loop accepts all waiting connections in one turn, and uvloop only one."""
    monkeypatch.setattr(listening, "MOST_THROTTLED", 3)

    async def flood() -> list[tuple[str, int]]:
        async with flooded(9) as (listener, _):
            await turns_until(lambda: len(listener.connections) == 4)
            return listener.by_listener()

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        assert runner.run(flood()) == [("PLAINTEXT", 1)]
