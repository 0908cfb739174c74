"""Gives leases that end by time to a store with leases that end with its process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import structlog

from oncelog_server.cluster.store import (
    Changes,
    Compare,
    Entry,
    Lease,
    LeaseEnded,
    MetadataStore,
    Snapshot,
    TxnResult,
    WriteOperation,
)

log = structlog.get_logger("oncelog.cluster")

# Pause before the next attempt to end a lease that the store could not end.
RETRY_S = 1.0


class TimedStore:
    """A MetadataStore. `inner` has no other user. A lease that is not renewed for its time to live
    ends."""

    def __init__(self, inner: MetadataStore) -> None:
        self._inner = inner
        self._loop = asyncio.get_running_loop()
        self._ends: dict[int, asyncio.TimerHandle] = {}
        self._ttl_ms: dict[int, int] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def get(self, key: str) -> Entry | None:
        return await self._inner.get(key)

    async def range(self, prefix: str) -> Snapshot:
        return await self._inner.range(prefix)

    async def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        return await self._inner.txn(compare, operations)

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes]:
        return self._inner.watch(prefix, from_revision)

    async def lease(self, ttl_ms: int) -> TimedLease:
        lease: Lease = await self._inner.lease(ttl_ms)
        self._ttl_ms[lease.id] = ttl_ms
        self._renew(lease.id)
        return TimedLease(self, lease.id, ttl_ms)

    def renew_lease(self, lease_id: int) -> int:
        """Return the time to live in ms. Raises LeaseEnded."""
        if lease_id not in self._ends:
            raise LeaseEnded(f"lease {lease_id} has ended")
        self._renew(lease_id)
        return self._ttl_ms[lease_id]

    def _renew(self, lease_id: int) -> None:
        if lease_id in self._ends:
            self._ends[lease_id].cancel()
        self._ends[lease_id] = self._loop.call_later(
            self._ttl_ms[lease_id] / 1000, self._elapsed, lease_id
        )

    def _elapsed(self, lease_id: int) -> None:
        self._forget(lease_id)
        self._end_later(lease_id)

    def _end_later(self, lease_id: int) -> None:
        """End the lease in the store, with retries, unless the store is closed. Nothing else
        deletes the keys of the lease. The store accepts the end of a lease that has ended."""
        if self._is_closed:
            return
        task = self._loop.create_task(self._end(lease_id), name=f"end of lease {lease_id}")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _forget(self, lease_id: int) -> None:
        """Forget the lease: a renewal then raises LeaseEnded."""
        end = self._ends.pop(lease_id, None)
        if end is not None:
            end.cancel()
        self._ttl_ms.pop(lease_id, None)

    async def _end(self, lease_id: int) -> None:
        while True:
            try:
                return await self._inner.revoke_lease(lease_id)
            except OSError as error:
                log.warning("a lease could not be ended", lease=lease_id, reason=str(error))
            await asyncio.sleep(RETRY_S)

    async def revoke_lease(self, lease_id: int) -> None:
        """End the lease. Raises OSError if the store could not end it. The lease cannot be renewed
        in any case. After an error, or if the caller is cancelled, the end is retried."""
        self._forget(lease_id)
        try:
            await self._inner.revoke_lease(lease_id)
        except (OSError, asyncio.CancelledError):
            self._end_later(lease_id)
            raise

    async def close(self) -> None:
        self._is_closed = True
        for end in self._ends.values():
            end.cancel()
        for task in self._ending:
            task.cancel()
        await self._inner.close()


class TimedLease:
    """A lease that ends when it is not renewed, or is revoked."""

    def __init__(self, store: TimedStore, lease_id: int, ttl_ms: int) -> None:
        self._store = store
        self.id = lease_id
        self.ttl_ms = ttl_ms

    async def keep_alive(self) -> int:
        return self._store.renew_lease(self.id)

    async def revoke(self) -> None:
        await self._store.revoke_lease(self.id)
