"""The store in sqlite: what it keeps over a restart, and what it refuses."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from oncelog_server.cluster.store import Compacted, Entry, Put, Snapshot
from oncelog_server.metadata.sqlite_store import SqliteStore
from tests.server.metadata.collected import collect


async def test_sqlite_keeps_everything_but_leases_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    store = await SqliteStore.open(path)
    lease = await store.lease(1000)
    await store.txn((), [Put("leased", b"", lease.id), Put("kept", b"1")])
    last = await store.txn((), [Put("kept", b"2")])
    await store.close()
    again = await SqliteStore.open(path)
    assert await again.get("leased") is None
    kept = await again.get("kept")
    assert kept == Entry("kept", b"2", last.revision - 1, last.revision)
    following = await again.txn((), [Put("new", b"")])
    assert following.revision > last.revision
    with pytest.raises(Compacted):
        await collect(again, "", last.revision, 1)
    assert (await again.lease(1000)).id != lease.id
    await again.close()


async def test_sqlite_has_committed_when_a_transaction_returns(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    store = await SqliteStore.open(path)
    await store.txn((), [Put("a", b"1")])
    other = sqlite3.connect(path)
    assert other.execute("SELECT value FROM records").fetchall() == [(b"1",)]
    other.close()
    await store.close()


async def test_opening_a_file_that_is_no_store_is_an_os_error(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    path.write_bytes(b"this is not a database, and long enough to be seen as none" * 20)
    with pytest.raises(OSError, match="not a database"):
        await SqliteStore.open(path)
    newer = sqlite3.connect(tmp_path / "newer.sqlite")
    newer.execute("PRAGMA user_version=99")
    newer.close()
    with pytest.raises(OSError, match="another version"):
        await SqliteStore.open(tmp_path / "newer.sqlite")


async def test_reading_a_closed_store_is_an_os_error(tmp_path: Path) -> None:
    executor = ThreadPoolExecutor(1)
    store = await SqliteStore.open(tmp_path / "metadata.sqlite", executor)
    await store.close()
    with pytest.raises(OSError, match="closed"):
        await store.get("a")
    executor.shutdown()


async def test_a_transaction_that_does_not_fit_the_disk_changes_nothing(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "metadata.sqlite")
    before = await store.txn((), [Put("a", b"1")])
    connection = store._database._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(OSError, match="full"):
        await store.txn((), [Put("a", b"2"), Put("b", bytes(100_000))])
    assert await store.range("") == Snapshot(
        before.revision, (Entry("a", b"1", before.revision, before.revision),)
    )
    connection.execute("PRAGMA max_page_count=100000")
    after = await store.txn((), [Put("b", bytes(100_000))])
    assert after.revision == before.revision + 1
    (changes,) = await collect(store, "", after.revision, 1)
    assert [event.key for event in changes.events] == ["b"]
    await store.close()
