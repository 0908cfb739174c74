"""Connections of the simulated network."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.simulation.loop import SimLoop
from tests.simulation.net import SimNet
from tests.simulation.process import Process


class Noted(asyncio.Protocol):
    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._calls.append("made")

    def connection_lost(self, error: Exception | None) -> None:
        self._calls.append("lost")


@pytest.mark.parametrize("dies_after_us", range(0, 1_200, 50))
def test_a_connection_is_made_before_it_is_lost(dies_after_us: int) -> None:
    """The server dies before, during or after the connect."""
    loop = SimLoop(0)
    loop.network = SimNet(loop, Random(dies_after_us))
    server, client = Process("server", 1), Process("client", 2)
    calls: list[str] = []

    async def serve() -> None:
        listening = await loop.create_server(asyncio.Protocol, "server", 1)
        await listening.start_serving()

    async def connect() -> None:
        loop.call_later(dies_after_us / 1e6, server.die)
        try:
            await loop.create_connection(lambda: Noted(calls), "server", 1)
        except ConnectionError:
            calls.append("failed")
        await asyncio.sleep(1)

    async def whole() -> None:
        assert await server.run(serve())
        assert await client.run(connect())

    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(whole())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    assert calls in (["made", "lost"], ["failed"])
