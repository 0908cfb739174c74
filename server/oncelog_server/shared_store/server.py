"""Serves a metadata store to the other brokers of this machine."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import structlog

from oncelog_server.cluster.store import Compacted, LeaseEnded, MetadataStore
from oncelog_server.operating_system.socket_path import socket_path
from oncelog_server.shared_store.messages import (
    Changed,
    Done,
    Failed,
    Found,
    Frames,
    Get,
    Grant,
    Granted,
    KeepAlive,
    Listed,
    Range,
    Request,
    Response,
    Revoke,
    Revoked,
    Txn,
    Unwatch,
    Watch,
    conditions,
    failed,
    framed,
    operations,
    request,
)
from oncelog_server.shared_store.timed_leases import TimedStore

OWNER_ONLY: Final = 0o600
# If the process that started the brokers has died, all brokers stop at the same time. The other
# brokers then still need the store for their last writes.
LEAVE_S: Final = 5.0
# A client that does not read loses its connection. It connects again, and reads everything anew.
MAX_UNREAD_BYTES: Final = 64 << 20
# Maximum number of changes that a watch sends in one turn of the loop. A change takes about 20 us.
CHANGES_PER_TURN: Final = 100
# The exceptions of the contract. Any other one is a defect.
_OF_CONTRACT: Final = (OSError, ValueError, Compacted, LeaseEnded)

log = structlog.get_logger("oncelog.cluster")


class SharedStore(TimedStore):
    """A store for this process, and for others by the socket `name` in `directory`."""

    def __init__(self, inner: MetadataStore, directory: Path, name: str) -> None:
        super().__init__(inner)
        self._directory = directory
        self._name = name
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    async def open(self) -> None:
        """Listen on the socket. A socket of an earlier process is replaced: the lock on the
        directory proves that it is dead. Raises OSError."""
        path = self._directory / self._name
        with suppress(FileNotFoundError):
            path.unlink()
        with socket_path(self._directory, self._name) as short:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(self._connected, short)
        path.chmod(OWNER_ONLY)

    def _connected(self) -> _Connection:
        return _Connection(self, self._connections)

    async def close(self) -> None:
        """Close the store, when the other processes have left it, or after LEAVE_S."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                while self._connections:
                    await next(iter(self._connections)).ended.wait()
        if self._server is not None:
            self._server.close()
            with suppress(FileNotFoundError):
                (self._directory / self._name).unlink()
        for connection in list(self._connections):
            await connection.close()
        await super().close()


class _Connection(asyncio.Protocol):
    """The requests of one client."""

    def __init__(self, store: SharedStore, connections: set[_Connection]) -> None:
        self._store = store
        self._connections = connections
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._watches: dict[int, asyncio.Task[None]] = {}
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have no base class of asyncio.
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.ended.set()
        self._connections.discard(self)
        # A transaction in flight is carried out; its client sees an unknown outcome.
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """End the connection. Return when it has ended."""
        self._abort()
        await self.ended.wait()

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._frames.bodies(data):
                self._begin(request(body))
        except ValueError as error:
            log.error("an invalid request for the metadata", reason=str(error))
            self._abort()

    def _begin(self, asked: Request) -> None:
        if isinstance(asked, Unwatch):
            watch = self._watches.pop(asked.id, None)
            if watch is not None:
                watch.cancel()
            return
        if isinstance(asked, Watch):
            task = asyncio.create_task(self._watch(asked))
            self._watches[asked.id] = task
        else:
            task = asyncio.create_task(self._respond(asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _respond(self, asked: Get | Range | Txn | Grant | KeepAlive | Revoke) -> None:
        try:
            response = await self._served(asked)
        except _OF_CONTRACT as error:
            response = failed(asked.id, error)
        self._send(response)

    async def _served(self, asked: Get | Range | Txn | Grant | KeepAlive | Revoke) -> Response:
        store = self._store
        match asked:
            case Get():
                return Found(asked.id, await store.get(asked.key))
            case Range():
                return Listed(asked.id, await store.range(asked.prefix))
            case Txn():
                return Done(asked.id, await store.txn(conditions(asked), operations(asked)))
            case Grant():
                lease = await store.lease(asked.ttl_ms)
                return Granted(asked.id, lease.id, lease.ttl_ms)
            case KeepAlive():
                return Granted(asked.id, asked.lease_id, store.renew_lease(asked.lease_id))
            case Revoke():
                await store.revoke_lease(asked.lease_id)
                return Revoked(asked.id)

    async def _watch(self, asked: Watch) -> None:
        sent = 0
        try:
            async for changes in self._store.watch(asked.prefix, asked.from_revision):
                self._send(Changed(asked.id, changes))
                sent += 1
                # A watch that resumes gets up to KEPT_REVISIONS changes without a wait.
                if sent % CHANGES_PER_TURN == 0:
                    await asyncio.sleep(0)
        except _OF_CONTRACT as error:
            self._send(failed(asked.id, error))
        finally:
            self._watches.pop(asked.id, None)

    def _send(self, response: Response | Failed) -> None:
        if self._transport is None:
            return
        self._transport.write(framed(response))
        if self._transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            log.warning("a broker of this machine does not read the metadata")
            self._abort()
