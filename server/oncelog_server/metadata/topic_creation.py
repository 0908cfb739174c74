"""Creates topics. If only this process uses the metadata store, a topic is deleted again if the
disk has no room for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence, Set
from contextlib import suppress
from typing import Final

import structlog

from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.partition_limits import TakePermits
from oncelog_server.cluster.store import Write
from oncelog_server.cluster.topic_deletion import removal
from oncelog_server.cluster.topics import CreatedTopic, NewTopic, at_once, create_topics
from oncelog_server.metadata.conditional_writer import ConditionalWriter
from oncelog_server.metadata.image_follower import ImageFollower
from oncelog_server.metadata.topic_callbacks import TopicCallbacks
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings

# Interval between attempts to delete the metadata records of a topic without room on disk.
UNDO_RETRY_S: Final = 1.0

_log = structlog.get_logger("oncelog_server.metadata.cluster_metadata")


class TopicCreation:
    """Creates topics and waits until they can be used.

    `forget_deletions` removes the deletion records of topics that have no folder left. `lease_id`
    returns the lease of this broker.
    """

    def __init__(
        self,
        writer: ConditionalWriter,
        follower: ImageFollower,
        callbacks: TopicCallbacks,
        settings: Settings,
        *,
        new_uuid: Callable[[], bytes],
        forget_deletions: Callable[[Set[bytes]], Awaitable[None]],
        lease_id: Callable[[], int],
    ) -> None:
        self._writer = writer
        self._follower = follower
        self._callbacks = callbacks
        self._settings = settings
        self._new_uuid = new_uuid
        self._forget_deletions = forget_deletions
        self._lease_id = lease_id
        # Topics without room on disk that still have metadata records in the store: name -> id.
        self._not_undone: dict[str, bytes] = {}
        self._undoing: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Stop the attempts to delete topics without room on disk."""
        if self._undoing is not None:
            self._undoing.cancel()
            await asyncio.wait([self._undoing])

    async def create(
        self,
        topics: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        take: TakePermits = None,
        catches_up: bool = True,
    ) -> list[CreatedTopic | Refused]:
        """Create topics, many in one transaction of the store. Return one result for each. For
        `catches_up`, see `ConditionalWriter.write`."""
        results: list[CreatedTopic | Refused] = []
        for batch in at_once(self._settings, topics):
            results += await self._create_at_once(batch, validate_only, take, catches_up)
        return results

    async def _create_at_once(
        self,
        topics: Sequence[NewTopic],
        validate_only: bool,
        take: TakePermits,
        catches_up: bool,
    ) -> list[CreatedTopic | Refused]:
        results: dict[int, CreatedTopic | Refused] = {}
        if not validate_only:
            for index, new in enumerate(topics):
                if new.name in self._not_undone:
                    try:
                        await self._undo(new.name)
                    except Refused as refused:
                        results[index] = refused
        ids = {index: self._new_uuid() for index in range(len(topics)) if index not in results}

        def decide(image: ClusterImage) -> list[Write]:
            new_topics = [(topics[index], topic_id) for index, topic_id in ids.items()]
            outcomes, writes = create_topics(
                image, self._settings, new_topics, take, lease_id=self._lease_id()
            )
            results.update(zip(ids, outcomes, strict=True))
            return writes

        async def predecessors_deleted() -> None:
            await self._callbacks.deleted([topics[index].name for index in ids])

        try:
            await self._writer.write(
                decide,
                validate_only=validate_only,
                before=predecessors_deleted,
                catches_up=catches_up,
            )
        except Refused as failed:
            for index in ids:
                if not isinstance(results.get(index), Refused):
                    results[index] = failed
        if not validate_only:
            await self._wait_until_usable(results)
        return [results[index] for index in range(len(topics))]

    async def _wait_until_usable(self, results: dict[int, CreatedTopic | Refused]) -> None:
        """Wait until the created topics can be used, and delete those without room on disk."""
        for index, created in list(results.items()):
            if isinstance(created, Refused):
                continue
            try:
                await self._callbacks.created([created.name])
            except Refused as refused:
                await self._take_back(created.name, created.id)
                results[index] = refused

    async def _take_back(self, name: str, topic_id: bytes) -> None:
        """Delete a new topic that has no room on disk. If the store fails too, retry later."""
        topic = self._follower.image.topics.get(name)
        if topic is None or topic.id != topic_id:
            return
        if not self._callbacks.give_up(name):
            return
        self._not_undone[name] = topic_id
        try:
            await self._undo(name)
        except Refused as refused:
            _log.error(
                "a new topic without room on disk could not be deleted yet",
                topic=name,
                reason=str(refused),
            )
            if self._undoing is None or self._undoing.done():
                self._undoing = asyncio.create_task(self._undo_all(), name="undo of creations")

    async def _undo(self, name: str) -> None:
        """Delete the metadata records of a topic that has no room on disk. Raises Refused."""

        def decide(image: ClusterImage) -> list[Write]:
            topic = image.topics.get(name)
            if topic is None or topic.id != self._not_undone.get(name):
                return []
            return removal(topic)

        await self._writer.write(decide, catches_up=False)
        topic_id = self._not_undone.pop(name, b"")
        await self._callbacks.deleted([name])
        await self._forget_deletions({topic_id})

    async def _undo_all(self) -> None:
        while self._not_undone:
            await asyncio.sleep(UNDO_RETRY_S)
            for name in list(self._not_undone):
                with suppress(Refused):
                    await self._undo(name)
                    _log.info("a new topic without room on disk was deleted", topic=name)
