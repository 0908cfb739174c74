"""The simulator's store forgets changes as etcd does. With a clock, its leases end by time."""

from __future__ import annotations

import pytest

from oncelog_server.cluster.store import Compacted, LeaseEnded, Put
from tests.server.metadata.brokers import ManualClock
from tests.server.metadata.collected import collect
from tests.server.metadata.memory_store import MemoryStore


async def test_a_watch_from_a_compacted_revision_is_an_error() -> None:
    store = MemoryStore(kept=2)
    for number in range(5):
        await store.txn((), [Put("a", b"%d" % number)])
    assert len(await collect(store, "", 4, 2)) == 2
    with pytest.raises(Compacted):
        await collect(store, "", 3, 1)


async def test_with_a_clock_leases_end_by_time() -> None:
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
