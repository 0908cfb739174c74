"""The network: listeners, connections, and their faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from tests.simulation.cuts import Cuts
from tests.simulation.loop import SimLoop
from tests.simulation.pipe import Pipe, Watcher, Weather
from tests.simulation.process import CURRENT, Process
from tests.simulation.transport import SimTransport

Factory = Callable[[], asyncio.BaseProtocol]

FIRST_PORT: Final = 9092


class _Socket:
    def __init__(self, host: str, port: int) -> None:
        self._name = (host, port)

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def dup(self) -> _Socket:
        return self

    def listen(self, backlog: int) -> None:
        """Do nothing: `create_server` has taken the port already, and refuses a second server."""

    def __enter__(self) -> _Socket:
        return self

    def __exit__(self, *raised: object) -> None: ...


class SimServer:
    """The result of `loop.create_server`."""

    def __init__(self, net: SimNet, factory: Factory, host: str, port: int) -> None:
        process = CURRENT.get()
        assert process is not None
        self._net = net
        self.factory = factory
        self.process = process
        self.address = (host, port)
        self.sockets = [_Socket(host, port)]
        self.serving = False

    async def start_serving(self) -> None:
        self.serving = True

    def close(self) -> None:
        self.serving = False
        if self._net.servers.get(self.address) is self:
            del self._net.servers[self.address]


class Link:
    """A connection with its two ends. `hosts`: those of the client and of the server."""

    def __init__(
        self,
        client: SimTransport,
        server: SimTransport,
        owners: list[Process],
        hosts: tuple[str, str],
    ) -> None:
        self.client = client
        self.server = server
        self.owners = owners
        self.hosts = hosts

    def block(self, cuts: Cuts) -> None:
        """Let no bytes arrive in the directions that are cut."""
        there, back = self.client.outgoing, self.server.outgoing
        for pipe, hosts in ((there, self.hosts), (back, self.hosts[::-1])):
            is_cut = cuts.has(*hosts)
            if is_cut != pipe.blocked:
                pipe.block(is_cut)


class SimNet:
    """The network. `weather`: its present latency and faults, which may change at any time. `watch`
    gets every write of a client, and forwards or drops the bytes."""

    def __init__(self, loop: SimLoop, rng: Random) -> None:
        self._loop = loop
        self._rng = rng
        self.weather = Weather(rng)
        self.servers: dict[tuple[str, int], SimServer] = {}
        self.links: dict[int, Link] = {}
        self.watch: Watcher | None = None
        # Names of processes: `watch` does not get their writes.
        self.unwatched: set[str] = set()
        self.small_window = False
        # A cut is between hosts. A process is on the host that has its name.
        self.cuts = Cuts(self._cuts_changed)
        # Hosts refuse connections in these directions.
        self.refusals = Cuts(lambda: None)
        self._opened = 0
        self._connecting: list[asyncio.Future[None]] = []

    # --- methods that the event loop calls

    async def create_server(self, factory: Factory, host: str, port: int) -> SimServer:
        server = SimServer(self, factory, host, port or FIRST_PORT)
        if server.address in self.servers:
            raise OSError(98, "Address already in use")
        self.servers[server.address] = server
        server.process.on_death.append(server.close)
        return server

    async def create_connection(
        self, factory: Factory, host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        process = CURRENT.get()
        assert process is not None, "only a process can connect"
        await asyncio.sleep(self.weather.delay_us() / 1e6)
        await self._reach(process.name, host)
        server = self.servers.get((host, port))
        if server is None or not server.serving or self.refusals.has(process.name, host):
            raise ConnectionRefusedError(111, "Connection refused")
        link = self._connect(factory, process, server)
        await asyncio.sleep(self.weather.delay_us() / 1e6)
        if link.client.is_closing():
            # The server has died meanwhile. The client's protocol never hears of this connection.
            raise ConnectionResetError(104, "Connection reset by peer")
        link.client.open()
        return link.client, link.client.protocol

    def _connect(self, factory: Factory, process: Process, server: SimServer) -> Link:
        loop = self._loop
        self._opened += 1
        number = self._opened
        there, back = Pipe(loop, self.weather), Pipe(loop, self.weather)
        name = (process.name, 32_768 + number)

        def forget(transport: SimTransport) -> None:
            link = self.links.get(number)
            if link is not None and link.client._lost and link.server._lost:
                del self.links[number]

        client = SimTransport(
            loop, factory(), process.context, back, there, {"peername": server.address}, forget
        )
        accepted = server.process.context.run(server.factory)
        other = SimTransport(
            loop, accepted, server.process.context, there, back, {"peername": name}, forget
        )
        there.sender, there.receiver = client, other
        back.sender, back.receiver = other, client
        if self.small_window:
            client.set_write_buffer_limits(2048)
            other.set_write_buffer_limits(2048)
        client.watcher = None if process.name in self.unwatched else self.watch
        hosts = process.name, server.address[0]
        link = Link(client, other, [process, server.process], hosts)
        link.block(self.cuts)
        self.links[number] = link
        process.on_death.append(lambda: self._orphan(number, client))
        server.process.on_death.append(lambda: self._orphan(number, other))
        loop.call_soon(other.open, context=server.process.context)
        return link

    def _orphan(self, number: int, end: SimTransport) -> None:
        """Handle the death of the process at `end`. The kernel notifies the other end, and written
        bytes may still arrive."""
        link = self.links.get(number)
        if link is None:
            return
        other = link.server if end is link.client else link.client
        end._lost = end._closing = True
        end.incoming.lose()
        if self._rng.random() < 0.5:
            end.outgoing.lose()
            if end.outgoing.blocked:
                end.outgoing.end()
            elif not other._lost:
                other.break_off()
        else:
            end.outgoing.end()
        if other._lost:
            del self.links[number]

    async def _reach(self, source: str, target: str) -> None:
        """Wait until two hosts reach each other in both directions, as a connect needs."""
        while self.cuts.has(source, target) or self.cuts.has(target, source):
            restored = self._loop.create_future()
            self._connecting.append(restored)
            await restored

    def _cuts_changed(self) -> None:
        for link in self.open_links():
            link.block(self.cuts)
        waiting, self._connecting = self._connecting, []
        for restored in waiting:
            if not restored.done():
                restored.set_result(None)

    # Faults.

    def open_links(self) -> list[Link]:
        return [self.links[number] for number in sorted(self.links)]

    def reset(self, link: Link) -> None:
        """Break a connection for both ends. Bytes in flight are lost in one or both directions."""
        if self._rng.random() < 0.5:
            link.client.outgoing.lose()
        link.server.outgoing.lose()
        link.client.break_off()
        link.server.outgoing.ended = True
        # The other end notices the reset after the bytes that still arrive.
        link.client.outgoing.end()

    def vanish(self, link: Link) -> None:
        """Break a connection silently: no more bytes arrive in either direction."""
        link.client.outgoing.cut = link.server.outgoing.cut = True

    def hold(self, link: Link, for_us: int) -> None:
        link.client.outgoing.hold(for_us)
