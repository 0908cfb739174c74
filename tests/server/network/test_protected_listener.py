"""A full listener of clients does not keep other brokers out (KIP-402)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from oncelog_server.network.admission import PlaintextAdmission
from oncelog_server.network.excess import REASON
from oncelog_server.network.listener import Limits, Listener
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.settings.listener_settings import ListenerSetting
from oncelog_server.settings.model import Settings
from oncelog_server.settings.protected_listener import protected_listener
from tests.server.network.test_connection_rate import DEADLINE_S, FRAME, Echo, ManualClock

SETTINGS = Settings(
    listeners=("CLIENTS://:1", "BROKERS://:2"),
    listener_security_protocol_map="CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    inter_broker_listener_name="BROKERS",
    max_connections=3,
)


class Client:
    """A connection to one of the listeners."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def is_served(self) -> bool:
        """Send a request. Return True if there is a response, False if the connection ends."""
        self._writer.write(FRAME)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            return await self._reader.readexactly(4) == b"ping"
        return False

    async def is_closed(self) -> bool:
        with suppress(ConnectionError):
            assert await self._reader.read() == b""
        return True

    def close(self) -> None:
        self._writer.close()


class World:
    """A listener for clients and a listener for brokers."""

    def __init__(self, settings: Settings, limits: Limits) -> None:
        self.settings = settings
        self.clock = ManualClock()
        self.listener = Listener(Echo(), limits, self.clock, QuotaGate(self.clock.monotonic_ms))
        self._ports: dict[str, int] = {}
        self.clients: list[Client] = []

    async def open(self) -> None:
        for name in ("CLIENTS", "BROKERS"):
            admission = PlaintextAdmission(name)
            _, self._ports[name] = await self.listener.bind(admission, "127.0.0.1", 0)
        await self.listener.accept()

    async def connect(self, listener: str) -> Client:
        """Connect, a millisecond after the last connection, and wait until the listener knows."""
        self.clock.ms += 1
        before = self.listener.accepted
        client = Client(*await asyncio.open_connection("127.0.0.1", self._ports[listener]))
        self.clients.append(client)
        while self.listener.accepted == before:  # noqa: ASYNC110 - waits for turns of the loop
            await asyncio.sleep(0)
        return client

    def open_connections(self) -> dict[str, int]:
        return dict(self.listener.by_listener())

    def set_limit(self, max_connections: int) -> None:
        """Change the limit as `max.connections` of a running broker does."""
        changed = replace(self.settings, max_connections=max_connections)
        self.listener.follow(Limits.of(changed), None)


@asynccontextmanager
async def world(settings: Settings = SETTINGS, descriptors: int = 1_000) -> AsyncIterator[World]:
    made = World(settings, Limits.of(settings).at_most(descriptors))
    await made.open()
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield made
    finally:
        for client in made.clients:
            client.close()
        await made.listener.stop(0.1)


async def test_a_broker_takes_the_place_of_the_least_recently_used_client() -> None:
    with capture_logs() as events:
        async with world() as made:
            first, second, third = [await made.connect("CLIENTS") for _ in range(3)]
            assert await first.is_served()  # it is not the least recently used any more
            broker = await made.connect("BROKERS")
            assert await broker.is_served()
            assert await second.is_closed()
            assert await third.is_served()
            assert await first.is_served()
            assert made.open_connections() == {"CLIENTS": 2, "BROKERS": 1}
            refused = await made.connect("CLIENTS")
            assert await refused.is_closed()
    found = [(event["event"], event.get("reason"), event.get("listener")) for event in events]
    assert found == [
        ("connection closed", REASON, None),
        ("too many connections", None, "CLIENTS"),
    ]


async def test_brokers_are_admitted_even_if_no_client_is_left_to_close() -> None:
    async with world() as made:
        clients = [await made.connect("CLIENTS") for _ in range(3)]
        brokers = [await made.connect("BROKERS") for _ in range(5)]
        assert all([await client.is_closed() for client in clients])
        assert all([await broker.is_served() for broker in brokers])
        assert made.open_connections() == {"CLIENTS": 0, "BROKERS": 5}


async def test_the_own_limit_of_the_inter_broker_listener_holds() -> None:
    own = {ListenerSetting("BROKERS", None, "max.connections"): 1}
    async with world(replace(SETTINGS, of_listeners=own)) as made:
        clients = [await made.connect("CLIENTS") for _ in range(2)]
        broker, refused = [await made.connect("BROKERS") for _ in range(2)]
        assert await broker.is_served()
        assert await refused.is_closed()
        assert all([await client.is_served() for client in clients])


async def test_brokers_get_no_more_connections_than_there_are_descriptors() -> None:
    async with world(descriptors=4) as made:
        brokers = [await made.connect("BROKERS") for _ in range(4)]
        assert await (await made.connect("BROKERS")).is_closed()
        assert all([await broker.is_served() for broker in brokers])


async def test_a_lower_limit_closes_the_connections_above_it() -> None:
    """As Kafka's Processor.closeExcessConnections. An operator at the inter-broker listener can
    still raise the limit again."""
    async with world(replace(SETTINGS, max_connections=100)) as made:
        clients = [await made.connect("CLIENTS") for _ in range(25)]
        broker = await made.connect("BROKERS")
        made.set_limit(3)
        assert all([await client.is_closed() for client in clients[:-2]])
        assert all([await client.is_served() for client in clients[-2:]])
        made.set_limit(0)
        assert all([await client.is_closed() for client in clients])
        assert await (await made.connect("CLIENTS")).is_closed()
        assert await broker.is_served()
        assert await (await made.connect("BROKERS")).is_served()
        made.set_limit(3)
        assert await (await made.connect("CLIENTS")).is_served()


@pytest.mark.parametrize(
    ("settings", "listener"),
    [
        (SETTINGS, "BROKERS"),
        (Settings(), None),
        # No setting names the listener for other brokers.
        (replace(SETTINGS, inter_broker_listener_name=None), None),
        # Other brokers use the first listener.
        (
            replace(
                SETTINGS, inter_broker_listener_name=None, oncelog_etcd_endpoints=("http://etcd:1",)
            ),
            "CLIENTS",
        ),
        (Settings(listeners=("CLIENTS://:1", "PLAINTEXT://:2")), "PLAINTEXT"),
    ],
)
def test_the_listener_for_other_brokers_is_protected(
    settings: Settings, listener: str | None
) -> None:
    if "CLIENTS" in settings.listeners[0]:
        protocols = "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,PLAINTEXT:PLAINTEXT"
        settings = replace(settings, listener_security_protocol_map=protocols)
    assert protected_listener(settings) == listener
