"""Cuts of the simulated network by direction."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.simulation.cuts import Cut, Cuts, both_ways
from tests.simulation.loop import SimLoop
from tests.simulation.net import SimNet
from tests.simulation.process import Process


def cuts_of(*cuts: Cut) -> Cuts:
    found = Cuts(lambda: None)
    found.add(cuts)
    return found


def test_a_cut_has_one_direction() -> None:
    cuts = cuts_of(Cut(frozenset({"a"}), frozenset({"b"})))
    assert cuts.has("a", "b")
    assert not cuts.has("b", "a")
    assert not cuts.has("a", "c")


def test_a_host_without_others_reaches_itself() -> None:
    cuts = cuts_of(*both_ways(["a"], None))
    assert cuts.has("a", "b")
    assert cuts.has("b", "a")
    assert not cuts.has("a", "a")
    assert not cuts.has("b", "c")


def test_a_cut_that_was_added_twice_is_removed_twice() -> None:
    cut = Cut(frozenset({"a"}), None)
    cuts = cuts_of(cut, cut)
    cuts.remove([cut])
    assert cuts.has("a", "b")
    cuts.remove([cut])
    cuts.remove([cut])
    assert not cuts.has("a", "b")


class _Echo(asyncio.Protocol):
    """Sends what arrives back."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


class _Heard(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data


@pytest.mark.parametrize("source", ["client", "server"])
def test_bytes_in_a_direction_that_is_cut_arrive_when_it_is_restored(source: str) -> None:
    loop = SimLoop(0)
    net = loop.network = SimNet(loop, Random(0))
    cut = [Cut(frozenset({source}), None)]

    async def serve() -> None:
        server = await loop.create_server(_Echo, "server", 1)
        await server.start_serving()

    async def ask() -> None:
        transport, heard = await loop.create_connection(_Heard, "server", 1)
        net.cuts.add(cut)
        transport.write(b"x")
        await asyncio.sleep(60)
        assert not heard.data  # type: ignore[attr-defined]
        net.cuts.remove(cut)
        await asyncio.sleep(1)
        assert heard.data == b"x"  # type: ignore[attr-defined]
        net.cuts.add(cut)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await loop.create_connection(_Heard, "server", 1)

    async def whole() -> None:
        assert await Process("server", 1).run(serve())
        assert await Process("client", 2).run(ask())

    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(whole())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
