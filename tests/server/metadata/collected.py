"""The changes of a watch, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Final, cast

from oncelog_server.cluster.store import Changes, MetadataStore

# Enough for the transactions of a test on a busy disk.
DEADLINE_S: Final = 60.0


@asynccontextmanager
async def watching(
    store: MetadataStore, prefix: str, start: int, deadline_s: float | None = DEADLINE_S
) -> AsyncIterator[AsyncIterator[Changes]]:
    """Watch a prefix, until the end of the block. Raises TimeoutError after the deadline."""
    # Every store's watch is an async generator.
    watch = cast("AsyncGenerator[Changes, None]", store.watch(prefix, start))
    async with asyncio.timeout(deadline_s), aclosing(watch):
        yield watch


async def collect(store: MetadataStore, prefix: str, start: int, count: int) -> list[Changes]:
    """Return the first `count` changes of a watch."""
    async with watching(store, prefix, start) as watch:
        return [await anext(watch) for _ in range(count)]
