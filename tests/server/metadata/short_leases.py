"""Leases that end within a test, also while the process of the test is paused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from oncelog_server.cluster.store import Lease, LeaseEnded, MetadataStore
from tests.harness.waiting import DEADLINE_S

T = TypeVar("T")


async def before_the_end(
    store: MetadataStore, ttl_ms: int, use: Callable[[Lease], Awaitable[T]]
) -> T:
    """Return the result of `use` for a new lease. If the lease ends because `use` took longer than
    the TTL, repeat it with another lease. Raises LeaseEnded if the lease ends earlier."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            sent_s = time.monotonic()
            lease = await store.lease(ttl_ms)
            try:
                return await use(lease)
            except LeaseEnded:
                if time.monotonic() - sent_s < lease.ttl_ms / 1000:
                    raise
