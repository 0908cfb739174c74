"""Leases that end by time, over a store that refuses to end them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from oncelog_server.cluster.store import LeaseEnded, Put
from oncelog_server.shared_store import timed_leases
from oncelog_server.shared_store.timed_leases import TimedLease, TimedStore
from tests.server.metadata.brokers import until
from tests.server.metadata.memory_store import MemoryStore

# Longer than the tests.
LONG_MS = 600_000


class RefusingStore(MemoryStore):
    """A store with a disk that refuses the next `refusals` ends of leases, after `may_respond`."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals = 0
        self.may_respond = asyncio.Event()
        self.may_respond.set()

    async def revoke_lease(self, lease_id: int) -> None:
        refuses = self.refusals > 0
        self.refusals -= refuses
        await self.may_respond.wait()
        if refuses:
            raise OSError("disk I/O error")
        await super().revoke_lease(lease_id)


@pytest.fixture
def inner() -> RefusingStore:
    return RefusingStore()


@pytest.fixture
async def store(inner: RefusingStore) -> AsyncIterator[TimedStore]:
    store = TimedStore(inner)
    yield store
    await store.close()


async def registration(store: TimedStore) -> TimedLease:
    """Return the lease of a registration."""
    lease = await store.lease(LONG_MS)
    await store.txn((), [Put("brokers/2", b"{}", lease.id)])
    return lease


@pytest.mark.parametrize("refusals", [1, 2])
async def test_a_revocation_that_the_disk_refuses_is_retried(
    inner: RefusingStore, store: TimedStore, monkeypatch: pytest.MonkeyPatch, refusals: int
) -> None:
    """Otherwise the registration of a stopped broker stays: it keeps the leaders of its
    partitions, and its id is in use until the first broker starts again."""
    monkeypatch.setattr(timed_leases, "RETRY_S", 0)
    lease = await registration(store)
    inner.refusals = refusals
    with pytest.raises(OSError, match="disk I/O error"):
        await lease.revoke()
    with pytest.raises(LeaseEnded):
        await lease.keep_alive()
    await until(lambda: "brokers/2" not in inner.entries)


async def test_a_revocation_without_a_caller_is_retried(
    inner: RefusingStore, store: TimedStore
) -> None:
    """The connection of the broker ends before the store responds."""
    lease = await registration(store)
    inner.refusals = 1
    inner.may_respond.clear()
    revoking = asyncio.create_task(lease.revoke())
    await until(lambda: not inner.refusals)
    revoking.cancel()
    await asyncio.wait([revoking])
    assert "brokers/2" in inner.entries
    inner.may_respond.set()
    await until(lambda: "brokers/2" not in inner.entries)


async def test_a_closed_store_ends_no_lease(inner: RefusingStore, store: TimedStore) -> None:
    """The next start of the first broker ends all leases."""
    lease = await registration(store)
    inner.refusals = 1
    await store.close()
    with pytest.raises(OSError, match="disk I/O error"):
        await lease.revoke()
    assert not store._ending
