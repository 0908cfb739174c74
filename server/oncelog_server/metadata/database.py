"""The sqlite file of the metadata store, with checks that find a damaged or outdated file.

Every transaction updates a checksum over the file's records. The errors of sqlite are raised as
OSError. If the file is damaged, the error is DamagedStore.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar
from zlib import crc32

import msgspec

from oncelog_server.cluster.records import DELETIONS, PRODUCER_IDS
from oncelog_server.cluster.store import (
    Changes,
    Compare,
    Created,
    Delete,
    Entry,
    Event,
    LeaseEnded,
    Put,
    Snapshot,
    TxnResult,
    WriteOperation,
)
from oncelog_server.metadata.reserve import Reserve
from oncelog_server.metadata.text_copy import TextCopy
from oncelog_server.operating_system.file_modes import restrict

T = TypeVar("T")

SCHEMA_VERSION: Final = 2
# The first schema version had no checksum.
_WITHOUT_CHECKSUM: Final = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    key TEXT PRIMARY KEY,
    value BLOB NOT NULL,
    create_revision INTEGER NOT NULL,
    mod_revision INTEGER NOT NULL,
    lease_id INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO counters VALUES ('revision', 0), ('lease', 0), ('checksum', 0);
"""
_COLUMNS = "key, value, create_revision, mod_revision"
_SUM_BITS: Final = 62
# sqlite's errors for a damaged file. Every other error may be temporary.
_DAMAGE: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR_SHORT_READ", "SQLITE_FORMAT")
_NO_TABLE: Final = "no such table"
# sqlite's error for a lock of another process. sqlite waits 5 s for its end.
_BUSY: Final = "SQLITE_BUSY"
# The errors of sqlite for a full disk. They come from a write, or from the index of the write-ahead
# log.
_FULL: Final = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE")


class DamagedStore(OSError):
    """The store's file is empty, damaged, or older than its text copy."""


class FullStore(OSError):
    """The disk has no room for a transaction."""


class Database:
    """The connection to the file; used from the store's thread only.

    `may_be_new`: an empty or missing file is a new store, not a lost one. `copy` is the path of the
    text copy, a second file with the records that outlive the process. `reserve` is the path of a
    file that is shortened for transactions that must succeed on a full disk.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        may_be_new: bool = True,
        copy: Path | None = None,
        reserve: Path | None = None,
    ) -> None:
        self._path = path
        # The leases that have not ended. A key without a lease has lease 0.
        self._leases = {0}
        self._copy = TextCopy(copy) if copy is not None else None
        self._reserve = Reserve(reserve) if reserve is not None else None
        try:
            # Autocommit, because only `txn` begins and ends transactions.
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise OSError(f"{path}: {error}") from error
        try:
            self._with_reserve(lambda: self._prepare(may_be_new))
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, may_be_new: bool) -> None:
        (version,) = self._execute("PRAGMA user_version").fetchone()
        # A new file exists from the first statement on. SQLite's other files get the mode of this
        # file.
        restrict(self._path)
        if version not in (0, _WITHOUT_CHECKSUM, SCHEMA_VERSION):
            raise OSError(
                f"{self._path} has the schema {version} of another version of oncelog: start that "
                "version"
            )
        if version == 0 and not may_be_new:
            raise DamagedStore(f"{self._path} is empty")
        if version == SCHEMA_VERSION:
            self._check_sum()
        self._execute("PRAGMA journal_mode=WAL")
        self._execute("PRAGMA synchronous=FULL")
        if version != SCHEMA_VERSION:
            self._migrate()
        self.revision: int = self._counter("revision")
        if self._copy is not None:
            copied = self._copy.open(self.revision, self._lasting)
            if copied > self.revision:
                raise DamagedStore(
                    f"{self._path} is out of date: it ends at revision {self.revision}, and "
                    f"its copy {self._copy.path.name} ends at revision {copied}"
                )
        self.end_lease(None)

    def _migrate(self) -> None:
        with self._errors():
            self._connection.executescript(_SCHEMA)
        total = sum(map(_row_sum, self._rows(""))) % (1 << _SUM_BITS)
        self._execute("UPDATE counters SET value = ? WHERE name = 'checksum'", total)
        self._execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def _check_sum(self) -> None:
        total = sum(map(_row_sum, self._rows(""))) % (1 << _SUM_BITS)
        if total != self._counter("checksum"):
            raise DamagedStore(f"{self._path} is damaged: its records do not match their checksum")

    def fill(self, snapshot: Snapshot) -> None:
        """Insert the records of `snapshot` into a new store, with their revisions."""
        rows = [(*msgspec.structs.astuple(entry), 0) for entry in snapshot.entries]
        total = sum(map(_row_sum, snapshot.entries)) % (1 << _SUM_BITS)
        self._execute("BEGIN IMMEDIATE")
        with self._errors():
            self._connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?)", rows)
        self._execute("UPDATE counters SET value = ? WHERE name = 'checksum'", total)
        self._execute("UPDATE counters SET value = ? WHERE name = 'revision'", snapshot.revision)
        self._execute("COMMIT")
        self.revision = snapshot.revision

    def close(self) -> None:
        """Close the file. sqlite then moves the whole write-ahead log into the file, because this
        is the last connection."""
        if self._copy is not None:
            self._copy.close()
        self._connection.close()

    def settle(self) -> bool:
        """Move the write-ahead log into the file itself, sync the text copy and refill the reserve.

        A copy of the file alone is then complete. Return False if the caller must retry later.
        """
        if self._copy is not None:
            if self._copy.failure is not None:
                self._copy.refresh(self.revision, self._lasting)
            self._copy.sync()
        checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)"
        busy, _, _ = self._with_reserve(lambda: self._execute(checkpoint).fetchone())
        refilled = self._reserve is None or self._reserve.refill()
        return not busy and refilled and self.failure is None

    @property
    def failure(self) -> OSError | None:
        """Return the reason why the text copy lacks the last change, or why the reserve is missing.
        Return None if the text copy and the reserve are complete."""
        failure = None if self._copy is None else self._copy.failure
        if failure is None and self._reserve is not None:
            failure = self._reserve.failure
        return failure

    def _with_reserve(self, write: Callable[[], T]) -> T:
        """Call `write`. While the disk is full, release a part of the reserve and retry."""
        while True:
            try:
                return write()
            except FullStore:
                if self._reserve is None or not self._reserve.give():
                    raise

    def get(self, key: str) -> Entry | None:
        row = self._execute(f"SELECT {_COLUMNS} FROM records WHERE key = ?", key).fetchone()
        return Entry(*row) if row else None

    def range(self, prefix: str) -> Snapshot:
        return Snapshot(self.revision, tuple(self._rows(prefix)))

    def _rows(self, prefix: str) -> list[Entry]:
        rows = self._execute(
            f"SELECT {_COLUMNS} FROM records WHERE key >= ? AND substr(key, 1, ?) = ? ORDER BY key",
            prefix,
            len(prefix),
            prefix,
        )
        with self._errors():
            return [Entry(*row) for row in rows]

    def _lasting(self) -> list[Entry]:
        """Return the records without a lease, which outlive the process."""
        rows = self._execute(f"SELECT {_COLUMNS} FROM records WHERE lease_id = 0 ORDER BY key")
        with self._errors():
            return [Entry(*row) for row in rows]

    def new_lease(self) -> int:
        add_one = "UPDATE counters SET value = value + 1 WHERE name = 'lease'"
        self._with_reserve(lambda: self._execute(add_one))
        lease_id = self._counter("lease")
        self._leases.add(lease_id)
        return lease_id

    def has_lease(self, lease_id: int) -> bool:
        return lease_id in self._leases

    def end_lease(self, lease_id: int | None) -> tuple[TxnResult, Changes | None]:
        """Delete the keys of a lease, or of every lease if `lease_id` is None."""
        if lease_id is None:
            rows = self._execute("SELECT key FROM records WHERE lease_id != 0").fetchall()
        else:
            rows = self._execute("SELECT key FROM records WHERE lease_id = ?", lease_id).fetchall()
        ended = self.txn((), [Delete(key) for (key,) in rows])
        if lease_id is not None:
            self._leases.discard(lease_id)
        return ended

    def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> tuple[TxnResult, Changes | None]:
        """Carry out all operations if all conditions hold, else none.

        Raises FullStore if the disk is full and the transaction adds to the store. Any other
        transaction may use the reserve.
        """
        if any(map(self._adds, operations)):
            result, changes = self._commit(compare, operations)
        else:
            result, changes = self._with_reserve(lambda: self._commit(compare, operations))
        if changes is not None:
            self.revision = changes.revision
            self._note(changes, operations)
        return result, changes

    def _commit(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> tuple[TxnResult, Changes | None]:
        self._execute("BEGIN IMMEDIATE")
        try:
            result, changes = self._apply(compare, operations)
            self._execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return result, changes

    def _adds(self, operation: WriteOperation) -> bool:
        """Return True if the operation adds to the store. A new key adds to the store, and so does
        a block of producer ids.

        Two kinds of new keys do not count. A key that records a deletion does not count, because
        the deletion frees space. A key with a lease does not count, because a broker must be able
        to start.
        """
        if isinstance(operation, Delete) or operation.lease_id:
            return False
        if operation.key.startswith(DELETIONS):
            return False
        return operation.key == PRODUCER_IDS or self.get(operation.key) is None

    def _note(self, changes: Changes, operations: Sequence[WriteOperation]) -> None:
        """Append a transaction to the text copy."""
        if self._copy is None:
            return
        leased = {
            operation.key
            for operation in operations
            if isinstance(operation, Put) and operation.lease_id
        }
        rows = [(event.key, event.entry) for event in changes.events if event.key not in leased]
        self._copy.add(changes.revision, rows, self._lasting)
        if any(key == PRODUCER_IDS for key, _ in rows):
            self._copy.sync()

    def _apply(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> tuple[TxnResult, Changes | None]:
        if not all(map(self._holds, compare)):
            return TxnResult(
                False, 0, tuple(self.get(condition.key) for condition in compare)
            ), None
        for operation in operations:
            if isinstance(operation, Put) and operation.lease_id not in self._leases:
                raise LeaseEnded(f"lease {operation.lease_id} has ended")
        revision = self.revision + 1
        events: list[Event] = []
        added = 0
        for operation in operations:
            event, difference = self._operate(operation, revision)
            added += difference
            if event is not None:
                events.append(event)
        if not events:
            return TxnResult(True, 0), None
        self._execute("UPDATE counters SET value = ? WHERE name = 'revision'", revision)
        total = (self._counter("checksum") + added) % (1 << _SUM_BITS)
        self._execute("UPDATE counters SET value = ? WHERE name = 'checksum'", total)
        return TxnResult(True, revision), Changes(revision, tuple(events))

    def _holds(self, condition: Compare) -> bool:
        entry = self.get(condition.key)
        if isinstance(condition, Created):
            return (entry.create_revision if entry else 0) == condition.create_revision
        return (entry.mod_revision if entry else 0) == condition.mod_revision

    def _operate(self, operation: WriteOperation, revision: int) -> tuple[Event | None, int]:
        """Carry out an operation. Return its event and the change of the checksum."""
        before = self.get(operation.key)
        removed = _row_sum(before) if before else 0
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
            return Event(operation.key, entry), _row_sum(entry) - removed
        self._execute("DELETE FROM records WHERE key = ?", operation.key)
        return (Event(operation.key, None) if before else None), -removed

    def _counter(self, name: str) -> int:
        row = self._execute("SELECT value FROM counters WHERE name = ?", name).fetchone()
        if row is None:
            raise DamagedStore(f"{self._path} is damaged: it has no counter {name!r}")
        return int(row[0])

    def _execute(self, sql: str, *values: object) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, values)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: sqlite3.Error) -> OSError:
        code = getattr(error, "sqlite_errorname", "") or ""
        if code.startswith(_DAMAGE) or str(error).startswith(_NO_TABLE):
            return DamagedStore(f"{self._path} is damaged: {error}")
        if code.startswith(_BUSY):
            return OSError(
                f"metadata store {self._path} is locked by another process: end that process, then "
                "try again"
            )
        if code.startswith(_FULL):
            return FullStore(f"metadata store {self._path}: {error}")
        return OSError(f"metadata store {self._path}: {error}")


def _row_sum(entry: Entry) -> int:
    head = f"{entry.key}\0{entry.create_revision}\0{entry.mod_revision}\0"
    return crc32(entry.value, crc32(head.encode()))


def write_store(path: Path, snapshot: Snapshot) -> None:
    """Create a store with the records of `snapshot`, complete and synced in the file itself.

    Raises OSError.
    """
    database = Database(path)
    database.fill(snapshot)
    database.close()
    with path.open("rb") as file:
        os.fsync(file.fileno())
