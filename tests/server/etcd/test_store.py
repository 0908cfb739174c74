"""The store in etcd beyond the contract of every store: leases that end by themselves, foreign
keys, compaction."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from oncelog_server.cluster.store import (
    Changes,
    Compacted,
    Created,
    Delete,
    Event,
    Lease,
    LeaseEnded,
    Put,
    TxnResult,
    Written,
)
from oncelog_server.etcd.store import EtcdStore
from tests.harness.etcd import Etcd
from tests.harness.etcd_gateway import connected, text
from tests.harness.waiting import DEADLINE_S
from tests.server.etcd.stores import opened
from tests.server.metadata.collected import collect, watching
from tests.server.metadata.short_leases import before_the_end
from tests.simulation.etcd.server import SimEtcd


class Subject:
    """A simulated or a real etcd. `simulated` is None for the real one."""

    def __init__(self, address: str, simulated: SimEtcd | None) -> None:
        self.url = f"http://{address}"
        self.simulated = simulated
        self._address = address

    def advance(self, seconds: float) -> None:
        """Set the clock of the simulated etcd ahead. The real one takes its time."""
        if self.simulated is not None:
            self.simulated.state.advance(seconds)

    async def put_foreign(self) -> int:
        """Write a key that belongs to no store. Return the revision."""
        return await self._revision("/v3/kv/put", {"key": text("foreign"), "value": ""})

    async def compact(self, revision: int) -> None:
        body = {"revision": str(revision), "physical": True}
        await self._revision("/v3/kv/compaction", body)

    async def _revision(self, path: str, body: dict[str, object]) -> int:
        async with connected(self._address) as connection:
            reply = await connection.call(path, body)
        assert reply.status == 200, reply
        return int(reply.document["header"]["revision"])


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.process)])
async def etcd(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    if request.param == "real":
        real: Etcd = request.getfixturevalue("real_etcd")
        yield Subject(real.endpoints[0], None)
        return
    # The time is that of `advance` alone, so that no lease ends while this process is paused.
    simulated = SimEtcd(clock=lambda: 0.0)
    await simulated.start()
    yield Subject(simulated.endpoints[0], simulated)
    simulated.close()


@pytest.fixture
async def store(etcd: Subject) -> AsyncIterator[EtcdStore]:
    async with opened(etcd.url) as store:
        yield store


# Leases.


@pytest.mark.parametrize(
    ("asked_ms", "granted_ms"), [(1, 2000), (1000, 2000), (2001, 3000), (9000, 9000)]
)
async def test_a_ttl_is_granted_in_whole_seconds_and_at_least_two(
    store: EtcdStore, asked_ms: int, granted_ms: int
) -> None:
    async def renew(lease: Lease) -> None:
        assert lease.ttl_ms == granted_ms
        assert await lease.keep_alive() == granted_ms
        await lease.revoke()

    await before_the_end(store, asked_ms, renew)


async def test_a_lease_without_renewals_ends_and_its_keys_are_deleted(
    store: EtcdStore, etcd: Subject
) -> None:
    async def put(lease: Lease) -> tuple[Lease, TxnResult]:
        puts = [Put("a", b"", lease.id), Put("b", b"", lease.id)]
        return lease, await store.txn((), puts)

    lease, first = await before_the_end(store, 1000, put)
    async with watching(store, "", first.revision + 1) as watch:
        etcd.advance(2.5)
        changes = await anext(watch)
    assert changes == Changes(first.revision + 1, (Event("a", None), Event("b", None)))
    with pytest.raises(LeaseEnded):
        await lease.keep_alive()
    with pytest.raises(LeaseEnded):
        await store.txn((), [Put("a", b"", lease.id)])


async def test_a_lease_with_renewals_stays(store: EtcdStore, etcd: Subject) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await stays(store, etcd):
            pass


async def stays(store: EtcdStore, etcd: Subject) -> bool:
    """Renew a lease beyond its TTL, and check that it lives. Return False if a renewal came too
    late, because this process or etcd was paused for that long."""
    sent_s = time.monotonic()
    lease = await store.lease(2000)
    try:
        await store.txn((), [Put("a", b"", lease.id)])
        for _ in range(3):
            etcd.advance(1.0)
            if etcd.simulated is None:
                await asyncio.sleep(0.8)
            renewed_s = time.monotonic()
            assert await lease.keep_alive() == 2000
            sent_s = renewed_s
        lives = await store.get("a") is not None
    except LeaseEnded:
        lives = False
    assert lives or time.monotonic() - sent_s >= lease.ttl_ms / 1000
    await lease.revoke()
    return lives


# Foreign keys.


async def test_stores_of_different_prefixes_do_not_see_each_other(etcd: Subject) -> None:
    async with (
        opened(etcd.url, prefix="/separate/one") as first,
        opened(etcd.url, prefix="/separate/one/") as longer,
        opened(etcd.url, prefix="/separate/onf/") as other,
    ):
        revision = (await first.range("")).revision
        for store in (longer, other):
            assert (await store.txn([Created("a", 0)], [Put("a", b"")])).succeeded
        assert [entry.key for entry in (await longer.range("")).entries] == ["a"]
        assert [entry.key for entry in (await other.range("")).entries] == ["a"]
        # A prefix of another prefix sees its keys.
        assert [entry.key for entry in (await first.range("")).entries] == ["/a"]
        seen = await collect(first, "", revision + 1, 1)
        assert [event.key for event in seen[0].events] == ["/a"]
        for store in (longer, other):
            await store.txn((), [Delete("a")])


async def test_a_foreign_change_is_never_waited_for(store: EtcdStore, etcd: Subject) -> None:
    """A caller waits until its watch has reached the revision of a transaction. The watch reaches
    only revisions that changed a key of the store."""
    first = await store.txn((), [Put("a", b"1")])
    async with watching(store, "", first.revision) as watch:
        reached = (await anext(watch)).revision
        for number in range(5):
            foreign = await etcd.put_foreign()
            assert (await store.range("")).revision >= foreign
            failed = await store.txn([Written("a", 0)], [Put("a", b"")])
            unchanged = await store.txn((), [Delete("none")])
            assert (failed.revision, unchanged.revision) == (0, 0)
            result = await store.txn((), [Put("a", b"%d" % number)])
            await etcd.put_foreign()
            while reached < result.revision:
                reached = (await anext(watch)).revision
            assert reached == result.revision


# Compaction.


async def test_a_watch_from_a_compacted_revision_raises_compacted(
    store: EtcdStore, etcd: Subject
) -> None:
    first = await store.txn((), [Put("a", b"1")])
    second = await store.txn((), [Put("a", b"2")])
    third = await store.txn((), [Put("a", b"3")])
    await etcd.compact(second.revision)
    with pytest.raises(Compacted):
        await collect(store, "", first.revision, 1)
    (changes,) = await collect(store, "", third.revision, 1)
    assert changes.revision == third.revision
    assert [entry.value for entry in (await store.range("")).entries] == [b"3"]


async def test_a_deletion_at_exactly_the_compacted_revision_is_not_missed(
    store: EtcdStore, etcd: Subject
) -> None:
    """etcd forgets the deletions at the revision itself, and serves a watch that begins there."""
    await store.txn((), [Put("a", b"")])
    snapshot = await store.range("")
    deletion = await store.txn((), [Delete("a")])
    await store.txn((), [Put("b", b"")])
    await etcd.compact(deletion.revision)
    with pytest.raises(Compacted):
        await collect(store, "", snapshot.revision + 1, 1)


async def test_a_compaction_does_not_end_a_watch_that_has_seen_everything(
    store: EtcdStore, etcd: Subject
) -> None:
    first = await store.txn((), [Put("a", b"1")])
    async with watching(store, "", first.revision) as watch:
        await anext(watch)
        for number in range(3):
            foreign = await etcd.put_foreign()
            await etcd.compact(foreign)
            result = await store.txn((), [Put("a", b"%d" % number)])
            assert (await anext(watch)).revision == result.revision


async def test_a_watch_that_is_1200_revisions_behind_gets_each_one(store: EtcdStore) -> None:
    first = await store.txn((), [Put("a", b"")])
    for number in range(1200):
        last = await store.txn((), [Put("a", b"%d" % number)])
    seen = await collect(store, "", first.revision, 1201)
    assert [changes.revision for changes in seen] == list(range(first.revision, last.revision + 1))
    assert all(len(changes.events) == 1 for changes in seen)
