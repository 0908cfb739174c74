"""The pending changes that the metadata image requires of this broker, in a queue for each topic.

The changes of a topic are made in their order. Topics take turns, so that a new topic of one
partition does not wait for ten thousand changes of another topic. A held topic waits, and no other
topic waits for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator

import structlog

from oncelog_server.cluster.delta import PartitionChange
from oncelog_server.cluster.image import TopicImage
from oncelog_server.slices import Slices, Steps

log = structlog.get_logger("oncelog.partition")

# A partition that was added, changed or removed, or new settings of a topic.
Change = PartitionChange | TopicImage


def is_removal(change: Change) -> bool:
    """Return True if the change removes a partition, because its topic is deleted."""
    return isinstance(change, PartitionChange) and change.new is None


class TopicChanges:
    """The queues of changes. `make` makes a change. An exception of `make` is logged, and the other
    changes are still made. `on_idle` is called when no change is left."""

    def __init__(
        self, slices: Slices, make: Callable[[Change], None], on_idle: Callable[[], None]
    ) -> None:
        self._slices = slices
        self._make = make
        self._on_idle = on_idle
        # The pending changes by topic. The next change is made for the topic at the front.
        self._due: dict[str, deque[Change]] = {}
        # Futures by topic, completed when all of its changes are made.
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._is_working = False
        # The pending changes of held topics, and how often each is held.
        self._held: dict[str, deque[Change]] = {}
        self._holds: dict[str, int] = {}

    def __iter__(self) -> Iterator[Change]:
        """Iterate over the pending changes."""
        queues = (*self._due.values(), *self._held.values())
        return (change for changes in queues for change in changes)

    def add(self, change: Change) -> None:
        """Queue a change behind those of its topic."""
        topic = change if isinstance(change, TopicImage) else change.topic
        queues = self._held if topic.name in self._held else self._due
        due = queues.get(topic.name)
        if due is None:
            due = queues[topic.name] = deque()
        due.append(change)

    def forget(self, topic: str) -> None:
        """Drop the pending changes of a deleted topic. The removals of earlier topics of this name
        stay: their partitions are still open."""
        due = self._held.get(topic) or self._due.get(topic)
        if due is not None:
            removals = [change for change in due if is_removal(change)]
            due.clear()
            due.extend(removals)

    def hold(self, topic: str) -> None:
        """Make no change of the topic until `release`, called as often as `hold`."""
        self._holds[topic] = self._holds.get(topic, 0) + 1
        if topic not in self._held:
            self._held[topic] = self._due.pop(topic, deque())

    def release(self, topic: str) -> None:
        """Let the topic's changes be made, by the next call of `work`. Do nothing after `clear`."""
        if topic not in self._holds:
            return
        self._holds[topic] -= 1
        if not self._holds[topic]:
            del self._holds[topic]
            self._due[topic] = self._held.pop(topic)

    def work(self) -> None:
        """Make the queued changes in slices, unless they are already being made."""
        if self._due and not self._is_working:
            self._is_working = True
            self._slices.run(self._steps())

    async def settled(self, topics: Collection[str]) -> None:
        """Return when all changes of these topics are made."""
        for name in topics:
            if name in self._due or name in self._held:
                waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.setdefault(name, []).append(waiting)
                await waiting

    def clear(self) -> None:
        """Drop every change. Calls of `settled` return."""
        self._due.clear()
        self._held.clear()
        self._holds.clear()
        for name in list(self._waiting):
            self._wake(name)

    def _steps(self) -> Steps[None]:
        try:
            while self._due:
                name = next(iter(self._due))
                changes = self._due.pop(name)
                # The topic moves to the back, and stays queued while the change is made.
                self._due[name] = changes
                if changes:
                    self._try(changes.popleft())
                if not changes and self._due.get(name) is changes:
                    del self._due[name]
                    self._wake(name)
                yield
        finally:
            self._is_working = False
            self._on_idle()

    def _try(self, change: Change) -> None:
        try:
            self._make(change)
        except Exception:  # a defect in one change must not stop the others
            log.exception("a change of the metadata could not be made")

    def _wake(self, topic: str) -> None:
        for waiting in self._waiting.pop(topic, ()):
            if not waiting.done():
                waiting.set_result(None)
