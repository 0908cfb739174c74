"""The pauses between the attempts to open a connection, on simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import oncelog_client.io.connections
from oncelog_client.config import producer_config
from oncelog_client.errors import ClosedError, ConnectError
from oncelog_client.io.connections import FETCH_LANE, Connections
from tests.client.scripted_broker import ADDRESS, ScriptedBroker, simulated

BACKOFF_S = 10


class _Broker(ScriptedBroker):
    """A broker that refuses connections, without a delay, while it is `down`."""

    def __init__(self) -> None:
        super().__init__()
        self.down = True
        self.times: list[float] = []
        self.begun = asyncio.Event()

    async def create_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        self.times.append(asyncio.get_running_loop().time())
        self.begun.set()
        if self.down:
            raise ConnectionRefusedError(111, "Connection refused")
        return await super().create_connection(factory, host, port)

    @property
    def pauses(self) -> list[float]:
        return [after - before for before, after in zip(self.times, self.times[1:], strict=False)]


def _connections(
    on_failed: Callable[[], None] = lambda: None, *, max_idle_ms: int = 540_000
) -> Connections:
    config = producer_config(
        "broker:9092",
        {
            "reconnect_backoff_ms": BACKOFF_S * 1000,
            "reconnect_backoff_max_ms": 60_000,
            "connections_max_idle_ms": max_idle_ms,
        },
    )

    def spawn(work: Awaitable[None]) -> object:
        return asyncio.ensure_future(work)

    return Connections(config, spawn=spawn, on_failed=on_failed)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> _Broker:
    """A broker for a client without jitter, so that the pauses are exact."""
    monkeypatch.setattr(oncelog_client.io.connections, "fraction", lambda: 0.5)
    return _Broker()


async def _refused(connections: Connections) -> None:
    with pytest.raises(ConnectError):
        await connections.get(ADDRESS)


def test_the_pause_doubles_with_each_failure(broker: _Broker) -> None:
    async def scenario() -> None:
        connections = _connections()
        for _ in range(4):
            await _refused(connections)
        connections.close()

    simulated(broker, scenario)
    assert broker.pauses == pytest.approx([BACKOFF_S, 2 * BACKOFF_S, 4 * BACKOFF_S], abs=0.005)


def test_a_connection_that_was_open_is_reopened_at_once(broker: _Broker) -> None:
    """After an open connection, the next failure counts as the first failure again."""

    async def scenario() -> None:
        connections = _connections()
        await _refused(connections)
        await _refused(connections)
        broker.down = False
        (await connections.get(ADDRESS)).close()
        broker.down = True
        await _refused(connections)
        await _refused(connections)
        connections.close()

    simulated(broker, scenario)
    assert broker.pauses == pytest.approx([BACKOFF_S, 2 * BACKOFF_S, 0, BACKOFF_S], abs=0.005)


def test_the_failure_is_shown_until_a_connection_is_open(broker: _Broker) -> None:
    async def scenario() -> None:
        connections = _connections()
        await _refused(connections)
        assert [failure.address for failure in connections.failures] == [ADDRESS]
        broker.down = False
        opened = await connections.get(ADDRESS)
        assert connections.failures == connections.outage == ()
        assert await connections.get(ADDRESS) is opened
        assert connections.features == opened.features != {}
        connections.close()

    simulated(broker, scenario)


def test_calls_for_one_address_open_one_connection(broker: _Broker) -> None:
    broker.down = False

    async def scenario() -> None:
        connections = _connections()
        found = await asyncio.gather(*(connections.get(ADDRESS) for _ in range(3)))
        assert found[0] is found[1] is found[2]
        connections.close()

    simulated(broker, scenario)
    assert len(broker.times) == 1


def test_a_closed_client_does_not_connect(broker: _Broker) -> None:
    async def scenario() -> None:
        connections = _connections()
        connections.close()
        with pytest.raises(ClosedError):
            await connections.get(ADDRESS)

    simulated(broker, scenario)
    assert broker.times == []


@pytest.mark.parametrize("fails_first", [True, False], ids=["in the pause", "in the connect"])
def test_a_connect_that_is_not_done_at_the_close_leaves_nothing(
    broker: _Broker, fails_first: bool
) -> None:
    async def scenario() -> None:
        connections = _connections()
        if fails_first:
            await _refused(connections)
        broker.down = False
        connecting = asyncio.ensure_future(connections.get(ADDRESS))
        if fails_first:
            await asyncio.sleep(0)
        else:
            await broker.begun.wait()
        connections.close()
        await connections.wait_closed()
        with pytest.raises(ClosedError):
            await connecting
        assert not broker.connections
        assert len(broker.times) == 1

    simulated(broker, scenario)


class _Stopped(_Broker):
    """A broker that stops reading: transports keep their last bytes until an abort."""

    async def create_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        transport, protocol = await super().create_connection(factory, host, port)
        end = transport.close
        transport.close = lambda: None  # type: ignore[method-assign]
        transport.abort = end  # type: ignore[method-assign]
        return transport, protocol


def test_a_close_does_not_wait_forever_for_last_bytes() -> None:
    broker = _Stopped()
    broker.down = False

    async def scenario() -> None:
        connections = _connections()
        await connections.get(ADDRESS)
        connections.close()
        async with asyncio.timeout(BACKOFF_S):
            await connections.wait_closed()
        assert not broker.connections

    simulated(broker, scenario)


@pytest.mark.parametrize("down", [True, False])
def test_each_caller_that_waits_is_called_once(broker: _Broker, down: bool) -> None:
    """The callback of each caller is called once, whether the connection opens or fails."""
    broker.down = down
    called: list[str] = []

    def first() -> None:
        called.append("first")

    def second() -> None:
        called.append("second")

    async def scenario() -> None:
        connections = _connections(lambda: called.append("failed"))
        for callback in (first, first, second):
            assert connections.ready(ADDRESS, "", callback) is None
        await asyncio.sleep(3 * BACKOFF_S)  # simulated time
        assert sorted(called) == [*(["failed"] * 2 if down else []), "first", "second"]
        called.clear()
        assert (connections.ready(ADDRESS, "", first) is None) is down
        await asyncio.sleep(9 * BACKOFF_S)  # simulated time
        assert called == (["failed", "first"] if down else [])
        connections.close()

    simulated(broker, scenario)


def test_a_connection_that_is_idle_for_too_long_is_replaced(broker: _Broker) -> None:
    """If the maximum idle time is below 0, a connection is always kept."""
    broker.down = False

    async def scenario() -> None:
        for limit_ms, idle_s, is_kept in ((2_000, 1, True), (2_000, 3, False), (-1, 3_600, True)):
            connections = _connections(max_idle_ms=limit_ms)
            opened = await connections.get(ADDRESS)
            await asyncio.sleep(idle_s)  # simulated time
            assert (await connections.get(ADDRESS) is opened) is is_kept
            assert opened.closed is not is_kept
            connections.close()

    simulated(broker, scenario)


def test_addresses_are_those_of_open_connections_in_the_default_lane(broker: _Broker) -> None:
    broker.down = False

    async def scenario() -> None:
        connections = _connections()
        await connections.get(ADDRESS, FETCH_LANE)
        assert connections.addresses() == []
        opened = await connections.get(ADDRESS)
        assert connections.addresses() == [ADDRESS]
        opened.close()
        assert connections.addresses() == []
        connections.close()
        assert list(connections) == []

    simulated(broker, scenario)
    assert not broker.connections
