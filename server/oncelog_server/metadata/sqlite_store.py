"""The embedded MetadataStore: one sqlite file, for a cluster of one broker.

The database is used from one thread of its own. WAL with synchronous=FULL: a transaction that was
answered survives power loss. Leases live as long as the process: what the one before left is
removed when the store opens.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from oncelog_server.cluster.store import (
    Changes,
    Compare,
    Created,
    Delete,
    Entry,
    Event,
    Operation,
    Put,
    Snapshot,
    TxnResult,
    check_limits,
)
from oncelog_server.metadata.feed import Feed

T = TypeVar("T")

SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    key TEXT PRIMARY KEY,
    value BLOB NOT NULL,
    create_revision INTEGER NOT NULL,
    mod_revision INTEGER NOT NULL,
    lease_id INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO counters VALUES ('revision', 0), ('lease', 0);
"""
_COLUMNS = "key, value, create_revision, mod_revision"


class SqliteStore:
    """Open with `await SqliteStore.open(path)`. An executor that is given must have one thread."""

    def __init__(self, database: _Database, executor: Executor, owned: bool) -> None:
        self._database = database
        self._executor = executor
        self._owned = owned
        self._feed = Feed(database.revision)

    @classmethod
    async def open(cls, path: Path | str, executor: Executor | None = None) -> SqliteStore:
        """Opens or creates the file. Raises OSError if it is no store of ours or is damaged."""
        thread = executor or ThreadPoolExecutor(1, "oncelog-metadata")
        try:
            database = await asyncio.get_running_loop().run_in_executor(thread, _Database, path)
        except BaseException:
            if executor is None:
                thread.shutdown(wait=False)
            raise
        return cls(database, thread, executor is None)

    async def get(self, key: str) -> Entry | None:
        return await self._run(lambda: self._database.get(key))

    async def range(self, prefix: str) -> Snapshot:
        return await self._run(lambda: self._database.range(prefix))

    async def txn(self, compare: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        check_limits(compare, operations)
        return await self._change(lambda: self._database.txn(compare, operations))

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes]:
        return self._feed.watch(prefix, from_revision)

    async def lease(self, ttl_ms: int) -> SqliteLease:
        """`ttl_ms` has no meaning: the store cannot outlive the holder of its leases."""
        return SqliteLease(self, await self._run(self._database.new_lease))

    async def end_lease(self, lease_id: int) -> None:
        await self._change(lambda: self._database.end_lease(lease_id))

    async def close(self) -> None:
        await self._run(self._database.close)
        if self._owned:
            self._executor.shutdown(wait=False)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def _change(self, call: Callable[[], tuple[TxnResult, Changes | None]]) -> TxnResult:
        """A change is published in the order of commits, even if its caller has gone away."""
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


class SqliteLease:
    """Ends when it is revoked or when the process ends."""

    def __init__(self, store: SqliteStore, lease_id: int) -> None:
        self._store = store
        self.id = lease_id
        self._ended = False

    async def keep_alive(self) -> bool:
        return not self._ended

    async def revoke(self) -> None:
        self._ended = True
        await self._store.end_lease(self.id)


class _Database:
    """The connection, on its thread. sqlite's errors leave it as OSError."""

    def __init__(self, path: Path | str) -> None:
        self._path = path
        try:
            # Autocommit: transactions are begun and ended by `txn` alone.
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise OSError(f"{path}: {error}") from error
        try:
            self._prepare(path)
        except sqlite3.Error as error:
            self.close()
            raise OSError(f"{path}: {error}") from error

    def _prepare(self, path: Path | str) -> None:
        execute = self._connection.execute
        execute("PRAGMA journal_mode=WAL")
        execute("PRAGMA synchronous=FULL")
        (version,) = execute("PRAGMA user_version").fetchone()
        if version not in (0, SCHEMA_VERSION):
            self._connection.close()
            raise OSError(f"{path}: written by another version of this broker ({version})")
        if version == 0:
            self._connection.executescript(_SCHEMA)
            execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        self.revision: int = self._counter("revision")
        self.end_lease(None)

    def close(self) -> None:
        self._connection.close()

    def get(self, key: str) -> Entry | None:
        row = self._execute(f"SELECT {_COLUMNS} FROM records WHERE key = ?", key).fetchone()
        return Entry(*row) if row else None

    def range(self, prefix: str) -> Snapshot:
        rows = self._execute(
            f"SELECT {_COLUMNS} FROM records WHERE key >= ? AND key < ? ORDER BY key",
            prefix,
            prefix + "\U0010ffff",
        )
        return Snapshot(self.revision, tuple(Entry(*row) for row in rows))

    def new_lease(self) -> int:
        self._execute("UPDATE counters SET value = value + 1 WHERE name = 'lease'")
        return self._counter("lease")

    def end_lease(self, lease_id: int | None) -> tuple[TxnResult, Changes | None]:
        """Deletes the keys of a lease; of every lease if it is None."""
        if lease_id is None:
            rows = self._execute("SELECT key FROM records WHERE lease_id != 0").fetchall()
        else:
            rows = self._execute("SELECT key FROM records WHERE lease_id = ?", lease_id).fetchall()
        return self.txn((), [Delete(key) for (key,) in rows])

    def txn(
        self, compare: Sequence[Compare], operations: Sequence[Operation]
    ) -> tuple[TxnResult, Changes | None]:
        self._execute("BEGIN IMMEDIATE")
        try:
            result, changes = self._apply(compare, operations)
            self._execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self.revision = result.revision
        return result, changes

    def _apply(
        self, compare: Sequence[Compare], operations: Sequence[Operation]
    ) -> tuple[TxnResult, Changes | None]:
        if not all(map(self._holds, compare)):
            return TxnResult(False, self.revision), None
        revision = self.revision + 1
        events = [event for event in (self._operate(one, revision) for one in operations) if event]
        if not events:
            return TxnResult(True, self.revision), None
        self._execute("UPDATE counters SET value = ? WHERE name = 'revision'", revision)
        return TxnResult(True, revision), Changes(revision, tuple(events))

    def _holds(self, condition: Compare) -> bool:
        entry = self.get(condition.key)
        if isinstance(condition, Created):
            return (entry.create_revision if entry else 0) == condition.create_revision
        return (entry.mod_revision if entry else 0) == condition.mod_revision

    def _operate(self, operation: Operation, revision: int) -> Event | None:
        before = self.get(operation.key)
        if isinstance(operation, Put):
            created = before.create_revision if before else revision
            entry = Entry(operation.key, operation.value, created, revision)
            self._execute(
                "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)",
                entry.key,
                entry.value,
                created,
                revision,
                operation.lease_id,
            )
            return Event(operation.key, entry)
        self._execute("DELETE FROM records WHERE key = ?", operation.key)
        return Event(operation.key, None) if before else None

    def _counter(self, name: str) -> int:
        (value,) = self._execute("SELECT value FROM counters WHERE name = ?", name).fetchone()
        return int(value)

    def _execute(self, sql: str, *values: object) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, values)
        except sqlite3.Error as error:
            raise OSError(f"metadata store {self._path}: {error}") from error
