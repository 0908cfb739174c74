"""The contract of every MetadataStore. The store in sqlite and the simulator's store pass the same
tests."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from oncelog_server.cluster.store import (
    MAX_OPERATIONS,
    Changes,
    Compacted,
    Created,
    Delete,
    Entry,
    Event,
    LeaseEnded,
    MetadataStore,
    Put,
    Snapshot,
    Written,
)
from oncelog_server.metadata.sqlite_store import SqliteStore
from tests.server.metadata.brokers import ManualClock
from tests.server.metadata.memory_store import MemoryStore

# Enough for twenty transactions on a busy disk.
DEADLINE_S = 60


@pytest.fixture(params=["sqlite", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MetadataStore]:
    opened: MetadataStore
    if request.param == "sqlite":
        opened = await SqliteStore.open(tmp_path / "metadata.sqlite")
    else:
        opened = MemoryStore()
    yield opened
    await opened.close()


async def collect(store: MetadataStore, prefix: str, start: int, count: int) -> list[Changes]:
    found: list[Changes] = []
    async with asyncio.timeout(DEADLINE_S):
        async for changes in store.watch(prefix, start):
            found.append(changes)
            if len(found) == count:
                break
    return found


async def test_written_values_are_read_with_their_revisions(store: MetadataStore) -> None:
    first = await store.txn((), [Put("a", b"1"), Put("b", b"2")])
    second = await store.txn((), [Put("a", b"3")])
    assert (first.succeeded, second.revision) == (True, first.revision + 1)
    assert await store.get("a") == Entry("a", b"3", first.revision, second.revision)
    assert await store.get("b") == Entry("b", b"2", first.revision, first.revision)
    assert await store.get("c") is None


async def test_a_range_has_the_keys_of_a_prefix_in_order_at_one_revision(
    store: MetadataStore,
) -> None:
    await store.txn((), [Put("t/b", b""), Put("t/a", b""), Put("u", b""), Put("t", b"")])
    last = await store.txn((), [Put("s", b"")])
    snapshot = await store.range("t/")
    assert [entry.key for entry in snapshot.entries] == ["t/a", "t/b"]
    assert snapshot.revision == last.revision
    assert len((await store.range("")).entries) == 5


async def test_a_key_created_again_has_a_new_create_revision(store: MetadataStore) -> None:
    first = await store.txn((), [Put("a", b"")])
    await store.txn((), [Delete("a")])
    again = await store.txn((), [Put("a", b"")])
    entry = await store.get("a")
    assert entry is not None
    assert entry.create_revision == again.revision == first.revision + 2


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (Written("a", 2), True),
        (Written("a", 1), False),
        (Written("a", 0), False),
        (Written("none", 0), True),
        (Created("a", 1), True),
        (Created("a", 2), False),
        (Created("none", 0), True),
        (Created("none", 1), False),
    ],
)
async def test_a_transaction_succeeds_only_if_its_condition_holds(
    store: MetadataStore, condition: Written | Created, holds: bool
) -> None:
    await store.txn((), [Put("a", b"1")])
    last = await store.txn((), [Put("a", b"2")])
    present = await store.get(condition.key)
    result = await store.txn([condition], [Put("x", b"")])
    assert result.succeeded is holds
    assert (await store.get("x") is not None) is holds
    assert result.revision == (last.revision + 1 if holds else 0)
    assert result.current == (() if holds else (present,))


async def test_if_one_condition_fails_nothing_changes(store: MetadataStore) -> None:
    result = await store.txn([Created("a", 0), Created("b", 7)], [Put("a", b""), Put("c", b"")])
    assert not result.succeeded
    assert (await store.range("")).entries == ()


async def test_a_delete_of_a_missing_key_makes_no_new_revision(store: MetadataStore) -> None:
    first = await store.txn((), [Put("a", b"")])
    result = await store.txn((), [Delete("none")])
    assert (result.succeeded, result.revision) == (True, 0)
    assert (await store.range("")).revision == first.revision


async def test_limits_are_those_of_etcd(store: MetadataStore) -> None:
    puts = [Put(f"k{number}", b"") for number in range(MAX_OPERATIONS)]
    assert (await store.txn((), puts)).succeeded
    with pytest.raises(ValueError, match="more than 128"):
        await store.txn((), [*puts, Put("one more", b"")])
    with pytest.raises(ValueError, match="more than 128"):
        await store.txn([Created(str(number), 0) for number in range(129)], ())
    with pytest.raises(ValueError, match="two operations"):
        await store.txn((), [Put("a", b""), Delete("a")])


async def test_a_watch_sees_every_change_of_its_prefix_in_order(store: MetadataStore) -> None:
    revision = await store.txn((), [Put("t/a", b"1"), Put("u", b"1"), Put("t/b", b"1")])
    two = await store.txn((), [Put("u", b"2")])
    three = await store.txn((), [Delete("t/a"), Put("t/b", b"3")])
    assert await collect(store, "t/", revision.revision, 2) == [
        Changes(
            revision.revision,
            (
                Event("t/a", Entry("t/a", b"1", revision.revision, revision.revision)),
                Event("t/b", Entry("t/b", b"1", revision.revision, revision.revision)),
            ),
        ),
        Changes(
            three.revision,
            (
                Event("t/a", None),
                Event("t/b", Entry("t/b", b"3", revision.revision, three.revision)),
            ),
        ),
    ]
    assert len(await collect(store, "u", two.revision, 1)) == 1


async def test_a_watch_waits_for_later_changes(store: MetadataStore) -> None:
    start = (await store.range("")).revision + 1
    watching = asyncio.create_task(collect(store, "a", start, 20))
    await asyncio.gather(*(store.txn((), [Put(f"a{number}", b"")]) for number in range(20)))
    revisions = [changes.revision for changes in await watching]
    assert revisions == list(range(start, start + 20))


async def test_one_of_two_concurrent_writers_succeeds(store: MetadataStore) -> None:
    results = await asyncio.gather(
        *(store.txn([Created("once", 0)], [Put("once", b"%d" % number)]) for number in range(10))
    )
    assert sum(result.succeeded for result in results) == 1


async def test_watchers_see_the_changes_of_cancelled_callers(store: MetadataStore) -> None:
    start = (await store.range("")).revision + 1
    for number in range(10):
        task = asyncio.create_task(store.txn((), [Put(f"k{number}", b"")]))
        await asyncio.sleep(0)
        task.cancel()
    last = await store.txn((), [Put("end", b"")])
    expected = [entry.mod_revision for entry in (await store.range("")).entries]
    seen = await collect(store, "", start, len(expected))
    assert [changes.revision for changes in seen] == sorted(expected)
    assert seen[-1].revision == last.revision


async def test_the_end_of_a_lease_deletes_its_keys(store: MetadataStore) -> None:
    lease = await store.lease(10_000)
    other = await store.lease(10_000)
    assert lease.id != other.id
    await store.txn(
        (), [Put("mine", b"", lease.id), Put("theirs", b"", other.id), Put("free", b"")]
    )
    await store.txn((), [Put("freed", b"", lease.id)])
    last = await store.txn((), [Put("freed", b"")])
    assert await lease.keep_alive() == lease.ttl_ms
    await lease.revoke()
    with pytest.raises(LeaseEnded):
        await lease.keep_alive()
    assert [entry.key for entry in (await store.range("")).entries] == ["free", "freed", "theirs"]
    (changes,) = await collect(store, "", last.revision + 1, 1)
    assert changes.events == (Event("mine", None),)


async def test_with_a_clock_the_leases_of_the_simulators_store_end_by_time() -> None:
    clock = ManualClock()
    store = MemoryStore(now_ms=clock)
    kept, lost = await store.lease(5_000), await store.lease(5_000)
    await store.txn((), [Put("kept", b"", kept.id), Put("lost", b"", lost.id)])
    clock.ms += 4_000
    assert await kept.keep_alive() == kept.ttl_ms == 5_000
    clock.ms += 1_000
    assert await store.get("lost") is None
    assert await store.get("kept") is not None
    with pytest.raises(LeaseEnded):
        await lost.keep_alive()


async def test_a_put_with_an_ended_lease_changes_nothing(store: MetadataStore) -> None:
    lease = await store.lease(10_000)
    await store.revoke_lease(lease.id)
    await lease.revoke()
    with pytest.raises(LeaseEnded):
        await store.txn((), [Put("a", b""), Put("b", b"", lease.id)])
    assert (await store.range("")).entries == ()


async def test_a_put_without_a_lease_detaches_the_key_and_keeps_its_create_revision(
    store: MetadataStore,
) -> None:
    lease = await store.lease(10_000)
    first = await store.txn((), [Put("a", b"1", lease.id)])
    second = await store.txn((), [Put("a", b"2")])
    await store.revoke_lease(lease.id)
    assert await store.get("a") == Entry("a", b"2", first.revision, second.revision)


async def test_a_watch_from_a_compacted_revision_is_an_error() -> None:
    store = MemoryStore(kept=2)
    for number in range(5):
        await store.txn((), [Put("a", b"%d" % number)])
    assert len(await collect(store, "", 4, 2)) == 2
    with pytest.raises(Compacted):
        await collect(store, "", 3, 1)


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
