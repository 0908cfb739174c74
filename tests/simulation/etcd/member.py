"""A member of a simulated etcd: its listener, its connections, and its faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from tests.simulation.etcd.connection import Connection
from tests.simulation.etcd.failures import DEADLINE, NO_LEADER, TIMED_OUT, Failure
from tests.simulation.etcd.faults import REQUEST_TIMEOUT_S, Faults
from tests.simulation.etcd.gateway import KEEP_ALIVE, VERSION, Gateway, Response, failed
from tests.simulation.etcd.leases import Lease
from tests.simulation.etcd.requests import Request
from tests.simulation.etcd.state import State

HOST: Final = "127.0.0.1"
FIRST_MEMBER_ID: Final = 14_263_679_780_044_703_596
# The errors of requests that find no leader in time, by path. Requests to other paths get DEADLINE.
LEADERLESS: Final[dict[str, Failure]] = {
    "/v3/kv/range": TIMED_OUT,
    KEEP_ALIVE: NO_LEADER,
    "/v3/lease/timetolive": NO_LEADER,
    "/v3/kv/lease/timetolive": NO_LEADER,
}


def _ignore(path: str) -> None:
    pass


class SimMember:
    """A member. `port` is its port, also after a restart."""

    def __init__(self, state: State, index: int) -> None:
        self.state = state
        self.faults = Faults()
        self.gateway = Gateway(state, FIRST_MEMBER_ID + index)
        self.host = HOST
        self.port = 0
        self.connections: dict[Connection, None] = {}
        # The paths of all requests, in their order.
        self.requests: list[str] = []
        # Called with the path of each request, before its faults take effect.
        self.on_request: Callable[[str], None] = _ignore
        self._server: Any = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    # --- the process

    async def start(self, host: str = HOST, port: int = 0) -> None:
        """Listen, on the former port after a restart. In a simulation, call this in the member's
        process."""
        self.host = host
        self.connections.clear()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), host, port or self.port)
        await self._server.start_serving()
        self.port = self._server.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """Refuse new connections. `start` accepts them again."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def cut(self) -> None:
        """Break all connections."""
        for connection in list(self.connections):
            connection.abort()

    def kill(self) -> None:
        """Refuse new connections and break the others, as the end of the process does."""
        self.refuse()
        self.cut()

    def stop(self) -> None:
        """Stop cleanly: refuse new connections, and end the watches with an error."""
        self.refuse()
        for connection in list(self.connections):
            connection.close()

    # --- requests

    async def carry_out(self, request: Request) -> Response:
        """Carry out a request that is no watch."""
        if request.path == "/health":
            is_healthy = self.faults.leader.is_open and not self.state.is_full
            return Response(
                200 if is_healthy else 503, {"health": "true" if is_healthy else "false"}
            )
        if request.path == "/version":
            return Response(200, dict(VERSION))
        if not self.gateway.knows(request.path):
            return Response(404, "Not Found")
        if request.method != "POST":
            return Response(405, "Method Not Allowed")
        failure = await self.leaderless(request)
        if failure is not None:
            return failed(failure, is_stream=request.path == KEEP_ALIVE)
        if request.path == KEEP_ALIVE:
            await self._ended(self.gateway.lease_of(request.body))
        return self.gateway.respond(request.path, request.body, request.token)

    async def leaderless(self, request: Request) -> Failure | None:
        """Wait for a leader. Return the error of a request that finds none, or None."""
        if self.faults.leader.is_open:
            return None
        if request.needs_leader:
            return NO_LEADER
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await self.faults.leader.passed()
        except TimeoutError:
            return LEADERLESS.get(request.path, DEADLINE)
        return None

    async def _ended(self, lease: Lease | None) -> None:
        """Wait for the end of a lease that is due. A keepalive does not save it."""
        if lease is None or not self.state.leases.is_due(lease):
            return
        ended = asyncio.Event()
        self.state.on_lease_end.append(ended.set)
        try:
            while self.state.leases.find(lease.id) is lease:
                ended.clear()
                await ended.wait()
        finally:
            self.state.on_lease_end.remove(ended.set)
