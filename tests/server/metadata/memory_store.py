"""The simulator's MetadataStore: a dictionary. A test can make the next transactions fail.

With a clock, the store outlives its brokers, like etcd: its leases end by time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

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
    check_limits,
)
from oncelog_server.metadata.feed import Feed


class MemoryStore:
    def __init__(self, *, kept: int = 10_000, now_ms: Callable[[], int] | None = None) -> None:
        self.entries: dict[str, Entry] = {}
        self.feed = Feed(0, kept)
        self.transactions = 0
        self.fail_next: list[OSError] = []
        self.is_full = False
        # A test that sets this makes the store unreachable.
        self.is_cut_off = False
        self._leases: dict[int, set[str]] = {}
        self._granted = 0
        self._now_ms = now_ms
        # The times at which leases end, by lease id.
        self._ends_ms: dict[int, int] = {}

    async def get(self, key: str) -> Entry | None:
        await self._reach()
        return self.entries.get(key)

    async def range(self, prefix: str) -> Snapshot:
        await self._reach()
        found = [self.entries[key] for key in sorted(self.entries) if key.startswith(prefix)]
        return Snapshot(self.feed.revision, tuple(found))

    async def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        check_limits(compare, operations)
        await self._reach()
        if self.fail_next:
            raise self.fail_next.pop()
        if self.is_full and operations:
            raise OSError("metadata store: the disk is full")
        if not all(map(self._holds, compare)):
            current = tuple(self.entries.get(condition.key) for condition in compare)
            return TxnResult(False, 0, current)
        for operation in operations:
            if isinstance(operation, Put) and not self.has_lease(operation.lease_id):
                raise LeaseEnded(f"lease {operation.lease_id} has ended")
        return self.apply(operations)

    def apply(self, operations: Sequence[WriteOperation]) -> TxnResult:
        """Apply a transaction at once, independently of the loop."""
        revision = self.feed.revision + 1
        events = [
            event for operation in operations if (event := self._operate(operation, revision))
        ]
        if events:
            self.transactions += 1
            self.feed.publish(Changes(revision, tuple(events)))
        return TxnResult(True, revision if events else 0)

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes]:
        return self.feed.watch(prefix, from_revision)

    async def lease(self, ttl_ms: int) -> MemoryLease:
        await self._reach()
        self._granted += 1
        lease_id = self._granted
        self._leases[lease_id] = set()
        if self._now_ms is None:
            return MemoryLease(self, lease_id, 0)
        self._ends_ms[lease_id] = self._now_ms() + ttl_ms
        return MemoryLease(self, lease_id, ttl_ms)

    async def renew_lease(self, lease_id: int, ttl_ms: int) -> None:
        await self._reach()
        if not self.has_lease(lease_id):
            raise LeaseEnded(f"lease {lease_id} has ended")
        if self._now_ms is not None:
            self._ends_ms[lease_id] = self._now_ms() + ttl_ms

    async def revoke_lease(self, lease_id: int) -> None:
        await self._reach()
        self.apply([Delete(key) for key in sorted(self._leases.get(lease_id, ()))])
        self._leases.pop(lease_id, None)

    def end_leases(self) -> None:
        """End the leases that have not been renewed in time."""
        for lease_id, end_ms in list(self._ends_ms.items()):
            if self._now_ms is not None and end_ms <= self._now_ms():
                del self._ends_ms[lease_id]
                keys = self._leases.pop(lease_id, set())
                if keys:
                    self.apply([Delete(key) for key in sorted(keys)])

    async def _reach(self) -> None:
        await asyncio.sleep(0)
        if self.is_cut_off:
            raise OSError("metadata store: no response")
        self.end_leases()

    def end_all_leases(self) -> None:
        """End all leases, as a store does when it opens after a crash of the broker."""
        keys = sorted({key for keys in self._leases.values() for key in keys})
        self._leases.clear()
        if keys:
            self.apply([Delete(key) for key in keys])

    def has_lease(self, lease_id: int) -> bool:
        return not lease_id or lease_id in self._leases

    async def close(self) -> None:
        await asyncio.sleep(0)

    def _holds(self, condition: Compare) -> bool:
        entry = self.entries.get(condition.key)
        if isinstance(condition, Created):
            return (entry.create_revision if entry else 0) == condition.create_revision
        return (entry.mod_revision if entry else 0) == condition.mod_revision

    def _operate(self, operation: WriteOperation, revision: int) -> Event | None:
        before = self.entries.get(operation.key)
        for keys in self._leases.values():
            keys.discard(operation.key)
        if isinstance(operation, Put):
            created = before.create_revision if before else revision
            entry = Entry(operation.key, operation.value, created, revision)
            self.entries[operation.key] = entry
            if operation.lease_id:
                self._leases[operation.lease_id].add(operation.key)
            return Event(operation.key, entry)
        self.entries.pop(operation.key, None)
        return Event(operation.key, None) if before else None


class MemoryLease:
    def __init__(self, store: MemoryStore, lease_id: int, ttl_ms: int) -> None:
        self._store = store
        self.id = lease_id
        self.ttl_ms = ttl_ms

    async def keep_alive(self) -> int:
        await self._store.renew_lease(self.id, self.ttl_ms)
        return self.ttl_ms

    async def revoke(self) -> None:
        await self._store.revoke_lease(self.id)
