"""The store as one broker reaches it: a test can delay its watch, and make its calls fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec

from oncelog_server.cluster import records
from oncelog_server.cluster.store import (
    Changes,
    Compare,
    Entry,
    Snapshot,
    TxnResult,
    WriteOperation,
)
from tests.server.metadata.memory_store import MemoryLease, MemoryStore


class View:
    """A MetadataStore. `store` is that of all brokers.

    `reads` and `barriers` count the calls of `range`, and the writes of keys of barriers. `foreign`
    is the number of later revisions that belong to foreign keys.
    """

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.reads = self.barriers = self.foreign = 0
        # The errors of the calls: of `range`, and of a write of the key of a barrier.
        self.read_error: Exception | None = None
        self.barrier_error: Exception | None = None
        self.watches = _open()
        self.responds = _open()

    async def get(self, key: str) -> Entry | None:
        return await self.store.get(key)

    async def range(self, prefix: str) -> Snapshot:
        self.reads += 1
        if self.read_error is not None:
            raise self.read_error
        snapshot = await self.store.range(prefix)
        await self.responds.wait()
        return msgspec.structs.replace(snapshot, revision=snapshot.revision + self.foreign)

    async def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        if any(operation.key.startswith(records.BARRIERS) for operation in operations):
            self.barriers += 1
            if self.barrier_error is not None:
                raise self.barrier_error
        return await self.store.txn(compare, operations)

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes]:
        async for changes in self.store.watch(prefix, from_revision):
            await self.watches.wait()
            yield changes

    async def lease(self, ttl_ms: int) -> MemoryLease:
        return await self.store.lease(ttl_ms)

    async def revoke_lease(self, lease_id: int) -> None:
        await self.store.revoke_lease(lease_id)

    async def close(self) -> None:
        await self.store.close()


def _open() -> asyncio.Event:
    opened = asyncio.Event()
    opened.set()
    return opened
