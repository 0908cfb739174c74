"""The metadata store of another broker of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast

import structlog

from oncelog_server.cluster.store import (
    Changes,
    Compare,
    Entry,
    Snapshot,
    TxnResult,
    UnknownOutcome,
    WriteOperation,
    check_limits,
)
from oncelog_server.operating_system.socket_path import socket_path
from oncelog_server.shared_store.messages import (
    Changed,
    Failed,
    Frames,
    Get,
    Grant,
    KeepAlive,
    Range,
    Request,
    Response,
    Revoke,
    Unwatch,
    Watch,
    framed,
    raised,
    response,
    transaction,
)

# The store is on this machine. It responds late only if its broker is stopped, or its disk hangs.
CALL_S: Final = 5.0
# Pause before a lost watch connects again.
PAUSE_S: Final = 0.1

log = structlog.get_logger("oncelog.cluster")


class ConnectionLost(OSError):
    """The connection ended before the response."""


class SocketStore:
    """A MetadataStore behind the socket `name` in `directory`. Each call connects if there is no
    connection."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        self._link: _Link | None = None
        self._connecting = asyncio.Lock()
        self._last_id = 0
        self._closed = False

    async def get(self, key: str) -> Entry | None:
        entry: Entry | None = (await self._call(lambda id_: Get(id_, key))).entry
        return entry

    async def range(self, prefix: str) -> Snapshot:
        snapshot: Snapshot = (await self._call(lambda id_: Range(id_, prefix))).snapshot
        return snapshot

    async def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        check_limits(compare, operations)
        link = await self._connected()
        try:
            done = await self._ask(link, lambda id_: transaction(id_, compare, operations))
        except (ConnectionLost, TimeoutError) as error:
            raise UnknownOutcome(str(error)) from error
        result: TxnResult = done.result
        return result

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes]:
        following = from_revision
        is_lost = False
        while True:
            try:
                link = await self._connected()
                if is_lost:
                    is_lost = False
                    log.info("the broker sees changes of the metadata again")
                async for changes in self._watched(link, prefix, following):
                    yield changes
                    following = changes.revision + 1
            except OSError as error:
                if self._closed:
                    raise
                if not is_lost:
                    log.warning(
                        "the broker does not see changes of the metadata", reason=str(error)
                    )
                is_lost = True
            await asyncio.sleep(PAUSE_S)

    async def _watched(self, link: _Link, prefix: str, following: int) -> AsyncIterator[Changes]:
        """Yield changes until the connection is lost. Raises ConnectionLost and Compacted."""
        id_ = self._next_id()
        arrived = link.watch(id_)
        try:
            link.send(Watch(id_, prefix, following))
            while True:
                message = await arrived.get()
                if message is None:
                    raise ConnectionLost(link.reason)
                if isinstance(message, Failed):
                    raise raised(message)
                assert isinstance(message, Changed)
                yield message.changes
        finally:
            link.forget(id_)
            link.send(Unwatch(id_))

    async def lease(self, ttl_ms: int) -> SocketLease:
        granted = await self._call(lambda id_: Grant(id_, ttl_ms))
        return SocketLease(self, granted.lease_id, granted.ttl_ms)

    async def renew_lease(self, lease_id: int) -> int:
        """Return the time to live in ms. Raises LeaseEnded and OSError."""
        granted = await self._call(lambda id_: KeepAlive(id_, lease_id))
        return int(granted.ttl_ms)

    async def revoke_lease(self, lease_id: int) -> None:
        await self._call(lambda id_: Revoke(id_, lease_id))

    async def close(self) -> None:
        self._closed = True
        if self._link is not None:
            self._link.close()
            await self._link.ended.wait()

    # --- the connection

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    async def _connected(self) -> _Link:
        """Return the connection. Raises OSError."""
        async with self._connecting:
            if self._closed:
                raise ConnectionLost("the store is closed")
            if self._link is None or self._link.is_lost:
                self._link = await self._connect()
            return self._link

    async def _connect(self) -> _Link:
        loop = asyncio.get_running_loop()
        try:
            with socket_path(self._directory, self._name) as path:
                _, link = await loop.create_unix_connection(_Link, path)
        except OSError as error:
            place = self._directory / self._name
            raise OSError(f"the first broker of this machine at {place}: {error}") from error
        return link

    async def _call(self, make: Callable[[int], Request]) -> Any:
        """Return the response. Raises the exceptions of the contract."""
        return await self._ask(await self._connected(), make)

    async def _ask(self, link: _Link, make: Callable[[int], Request]) -> Any:
        id_ = self._next_id()
        try:
            async with asyncio.timeout(CALL_S):
                message = await link.ask(id_, make(id_))
        except TimeoutError:
            raise TimeoutError(f"the store did not respond within {CALL_S:.0f} s") from None
        if isinstance(message, Failed):
            raise raised(message)
        return message


class SocketLease:
    """A lease of the store behind a socket."""

    def __init__(self, store: SocketStore, lease_id: int, ttl_ms: int) -> None:
        self._store = store
        self.id = lease_id
        self.ttl_ms = ttl_ms

    async def keep_alive(self) -> int:
        return await self._store.renew_lease(self.id)

    async def revoke(self) -> None:
        await self._store.revoke_lease(self.id)


class _Link(asyncio.Protocol):
    """One connection: the requests without a response, and the watches."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.reason = "the connection is closed"
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        # None ends a watch, because the connection is lost.
        self._watches: dict[int, asyncio.Queue[Response | None]] = {}

    @property
    def is_lost(self) -> bool:
        return self.ended.is_set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have no base class of asyncio.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        self.reason = f"the connection to the first broker is lost: {exc or 'closed'}"
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionLost(self.reason))
        for arrived in self._watches.values():
            arrived.put_nowait(None)

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._frames.bodies(data):
                self._take(response(body))
        except ValueError as error:
            log.error("an invalid response from the metadata store", reason=str(error))
            self.close()

    def _take(self, message: Response) -> None:
        arrived = self._watches.get(message.id)
        if arrived is not None:
            arrived.put_nowait(message)
            return
        future = self._waiting.get(message.id)
        if future is not None and not future.done():
            future.set_result(message)

    def send(self, asked: Request) -> None:
        """Send a request. Nothing happens if the connection is lost."""
        if self._transport is not None and not self.is_lost:
            self._transport.write(framed(asked))

    async def ask(self, id_: int, asked: Request) -> Response:
        """Return the response. Raises ConnectionLost."""
        if self.is_lost:
            raise ConnectionLost(self.reason)
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[id_] = future
        try:
            self.send(asked)
            return await future
        finally:
            del self._waiting[id_]

    def watch(self, id_: int) -> asyncio.Queue[Response | None]:
        """Return the queue of the responses of a watch."""
        arrived: asyncio.Queue[Response | None] = asyncio.Queue()
        if self.is_lost:
            arrived.put_nowait(None)
        self._watches[id_] = arrived
        return arrived

    def forget(self, id_: int) -> None:
        self._watches.pop(id_, None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
