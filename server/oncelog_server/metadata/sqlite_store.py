"""The embedded MetadataStore: one sqlite file, for a cluster of one broker.

The database has its own thread. The file uses WAL with synchronous=FULL, so that a completed
transaction survives power loss. Leases end with the process, so opening the store deletes the keys
that the previous process leased. One second after a change, the file itself contains sqlite's whole
write-ahead log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import structlog

from oncelog_server.cluster.store import (
    Changes,
    Compare,
    Entry,
    LeaseEnded,
    Snapshot,
    TxnResult,
    WriteOperation,
    check_limits,
)
from oncelog_server.metadata.database import DamagedStore as DamagedStore
from oncelog_server.metadata.database import Database
from oncelog_server.metadata.feed import Feed

T = TypeVar("T")

# Time between a change and the checkpoint of the file. The checkpoint also covers all other changes
# in this time.
SETTLE_S: Final = 1.0

log = structlog.get_logger("oncelog.storage")


class SqliteStore:
    """A MetadataStore in a sqlite file. Open it with `await SqliteStore.open(path)`."""

    def __init__(self, database: Database, executor: Executor, owned: bool) -> None:
        self._database = database
        self._executor = executor
        self._owned = owned
        self._feed = Feed(database.revision)
        self._settling: asyncio.TimerHandle | None = None
        self._logged_failure = ""
        self._closed = False

    @classmethod
    async def open(
        cls,
        path: Path | str,
        executor: Executor | None = None,
        *,
        may_be_new: bool = True,
        copy: Path | None = None,
        reserve: Path | None = None,
    ) -> SqliteStore:
        """Open the store at `path`. A missing or empty file is created only if `may_be_new`.

        `executor` must have exactly one thread. `copy` is the path of the text copy of the records.
        `reserve` is the path of the file with space for deletions on a full disk. Raises
        DamagedStore if the file is damaged. Raises OSError if the file cannot be opened, or is no
        metadata store.
        """
        thread = executor or ThreadPoolExecutor(1, "oncelog-metadata")
        make = partial(Database, path, may_be_new=may_be_new, copy=copy, reserve=reserve)
        try:
            database = await asyncio.get_running_loop().run_in_executor(thread, make)
        except BaseException:
            if executor is None:
                thread.shutdown(wait=False)
            raise
        return cls(database, thread, executor is None)

    async def get(self, key: str) -> Entry | None:
        return await self._run(lambda: self._database.get(key))

    async def range(self, prefix: str) -> Snapshot:
        return await self._run(lambda: self._database.range(prefix))

    async def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        check_limits(compare, operations)
        return await self._change(lambda: self._database.txn(compare, operations))

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes]:
        return self._feed.watch(prefix, from_revision)

    async def lease(self, ttl_ms: int) -> SqliteLease:
        """Return a new lease. `ttl_ms` has no effect, because store and owner are in the same
        process."""
        return SqliteLease(self, await self._run(self._database.new_lease))

    async def has_lease(self, lease_id: int) -> bool:
        return await self._run(lambda: self._database.has_lease(lease_id))

    async def revoke_lease(self, lease_id: int) -> None:
        await self._change(lambda: self._database.end_lease(lease_id))

    async def close(self) -> None:
        self._closed = True
        if self._settling is not None:
            self._settling.cancel()
        await self._run(self._database.close)
        if self._owned:
            self._executor.shutdown(wait=False)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def _change(self, call: Callable[[], tuple[TxnResult, Changes | None]]) -> TxnResult:
        """Run a transaction and publish its changes in the order of commits.

        The changes are published even if the caller is cancelled meanwhile.
        """
        future = asyncio.get_running_loop().run_in_executor(self._executor, call)
        future.add_done_callback(self._publish)
        result, _ = await asyncio.shield(future)
        return result

    def _publish(self, future: asyncio.Future[tuple[TxnResult, Changes | None]]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        changes = future.result()[1]
        if changes is not None:
            self._feed.publish(changes)
            self._settle_soon()

    def _settle_soon(self) -> None:
        if self._settling is None and not self._closed:
            self._settling = asyncio.get_running_loop().call_later(SETTLE_S, self._settle)

    def _settle(self) -> None:
        work = asyncio.get_running_loop().run_in_executor(self._executor, self._database.settle)
        work.add_done_callback(self._settled)

    def _settled(self, work: asyncio.Future[bool]) -> None:
        self._settling = None
        if work.cancelled():
            return
        failure = work.exception() or self._database.failure
        self._log_failure("" if failure is None else str(failure))
        if failure is not None or not work.result():
            self._settle_soon()

    def _log_failure(self, reason: str) -> None:
        """Log a failure to settle the file if it is the first, or if its reason has changed. Also
        log the next success."""
        if reason == self._logged_failure:
            return
        self._logged_failure = reason
        if reason:
            log.error(
                "the metadata file, its text copy or its reserve could not be written",
                reason=reason,
            )
        else:
            log.info("the metadata file, its text copy and its reserve are written again")


class SqliteLease:
    """A lease that ends when it is revoked or when the process ends."""

    ttl_ms = 0

    def __init__(self, store: SqliteStore, lease_id: int) -> None:
        self._store = store
        self.id = lease_id

    async def keep_alive(self) -> int:
        if not await self._store.has_lease(self.id):
            raise LeaseEnded(f"lease {self.id} has ended")
        return self.ttl_ms

    async def revoke(self) -> None:
        await self._store.revoke_lease(self.id)
