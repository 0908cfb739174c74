"""Ends the creations that have failed after their first transaction: deletes their keys
`creating/<topic id>`. The controller then removes the partitions that were written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from oncelog_server.cluster import records
from oncelog_server.cluster.store import MetadataStore, Write
from oncelog_server.cluster.topic_deletion import deletions

# Pause before the next attempt, if the store fails.
RETRY_S: Final = 1.0


class UnfinishedCreations:
    """The keys of creations that may have begun and are not completed. Call `stop` at the end: the
    keys that are left end with the lease of this broker."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._keys: dict[str, None] = {}
        self._retrying: asyncio.Task[None] | None = None

    def begin(self, writes: Sequence[Write]) -> list[str]:
        """Note that a sequence of transactions begins. Return the keys of its creation, none for a
        single transaction."""
        if len(writes) < 2:
            return []
        keys = [
            operation.key
            for operation in writes[0].operations
            if operation.key.startswith(records.CREATING)
        ]
        self._keys.update(dict.fromkeys(keys))
        return keys

    def complete(self, keys: Iterable[str]) -> None:
        """Note that the creations of these keys are complete, or have changed nothing."""
        for key in keys:
            self._keys.pop(key, None)

    async def end(self) -> None:
        """Delete the keys that are left. If the store fails, retry in the background."""
        if not self._keys or self._retrying is not None:
            return
        with suppress(OSError):
            await self._delete()
        if self._keys:
            self._retrying = asyncio.create_task(self._retry(), name="unfinished creations")

    async def stop(self) -> None:
        if self._retrying is not None:
            self._retrying.cancel()
            await asyncio.wait([self._retrying])

    async def _retry(self) -> None:
        while self._keys:
            await asyncio.sleep(RETRY_S)
            with suppress(OSError):
                await self._delete()
        self._retrying = None

    async def _delete(self) -> None:
        """Delete the keys. Raises OSError."""
        keys = list(self._keys)
        for write in deletions(keys):
            await self._store.txn(write.compare, write.operations)
        self.complete(keys)
