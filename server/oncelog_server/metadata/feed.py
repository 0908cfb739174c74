"""Holds the recent changes of a store for its watchers, in the order of revisions. The number of
changes is bounded."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from oncelog_server.cluster.store import Changes, Compacted

KEPT_REVISIONS = 10_000


class Feed:
    """The last `kept` changes of a store. A watcher that needs older changes gets Compacted.
    `revision` is the revision of the latest change."""

    def __init__(self, revision: int, kept: int = KEPT_REVISIONS) -> None:
        self.revision = revision
        self._compacted = revision
        self._kept: deque[Changes] = deque()
        self._limit = kept
        self._published = asyncio.Event()

    def publish(self, changes: Changes) -> None:
        """Append a change and wake the watchers. Raises RuntimeError if the revision of the change
        is stale."""
        if changes.revision <= self.revision:
            raise RuntimeError(f"revision {changes.revision} follows {self.revision}")
        self.revision = changes.revision
        self._kept.append(changes)
        if len(self._kept) > self._limit:
            self._compacted = self._kept.popleft().revision
        self._published.set()
        self._published = asyncio.Event()

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes]:
        following = from_revision
        while True:
            if following <= self._compacted:
                raise Compacted(f"revision {following} is older than {self._compacted + 1}")
            published = self._published
            for changes in self._since(following):
                following = changes.revision + 1
                events = tuple(event for event in changes.events if event.key.startswith(prefix))
                if events:
                    yield Changes(changes.revision, events)
            if following > self.revision:
                await published.wait()

    def _since(self, revision: int) -> list[Changes]:
        found: list[Changes] = []
        for changes in reversed(self._kept):
            if changes.revision < revision:
                break
            found.append(changes)
        return found[::-1]
