"""Deletes topics, and the records of their deletion when no broker needs these any more.

Only a broker with the metadata in its data directory needs the records. Its start refuses a folder
with an unknown topic, because the metadata may be older than the logs. A broker with its metadata
elsewhere puts such a folder aside. So the first of several brokers of a machine
(`oncelog.brokers`) deletes the records, also those of topics that another broker has deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set

import structlog

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.partition_limits import TakePermits
from oncelog_server.cluster.store import Write
from oncelog_server.cluster.topic_deletion import MAX_DELETED_AT_ONCE, delete_topics
from oncelog_server.metadata.conditional_writer import ConditionalWriter
from oncelog_server.metadata.image_follower import ImageFollower
from oncelog_server.metadata.topic_callbacks import TopicCallbacks
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings

_log = structlog.get_logger("oncelog_server.metadata.cluster_metadata")


class TopicRemoval:
    """Deletes topics and waits until their names are free."""

    def __init__(
        self,
        writer: ConditionalWriter,
        follower: ImageFollower,
        callbacks: TopicCallbacks,
        settings: Settings,
    ) -> None:
        self._writer = writer
        self._follower = follower
        self._callbacks = callbacks
        self._settings = settings
        # Returns the ids of deleted topics that still have folders on this broker.
        self.undropped: Callable[[], Set[bytes]] = frozenset
        # Names of deleted topics by id. `_forgetting` deletes the records of their deletion.
        self._remembered: dict[bytes, str] = {}
        self._forgetting: asyncio.Task[None] | None = None

    def follow_others(self) -> None:
        """On the first of several brokers of a machine, delete the deletion records that other
        brokers write from now on. This broker must have opened its partitions."""
        if self._settings.oncelog_brokers > 1 and self._settings.first_broker is None:
            self._follower.subscribe(self._follow)

    async def stop(self) -> None:
        """Leave the remaining records to the next start."""
        if self._forgetting is not None:
            self._forgetting.cancel()
            await asyncio.wait([self._forgetting])

    async def delete(
        self, names: Sequence[str], take: TakePermits, checked: Mapping[str, bytes]
    ) -> list[Refused | None]:
        """Delete topics, many in one transaction of the store. Return one result for each.
        `checked` are the ids that the topics must have, by name."""
        ids: dict[str, bytes] = {}
        results: list[Refused | None] = []
        for start in range(0, len(names), MAX_DELETED_AT_ONCE):
            some = names[start : start + MAX_DELETED_AT_ONCE]
            results += await self._delete(some, take, checked, ids)
        try:
            await self._callbacks.deleted(names)
        except Refused:
            # The topics are deleted, but a power failure may undo the renames of their folders. The
            # next start, which may find the folders, still needs the deletion records.
            return results
        deleted = [name for name, refused in zip(names, results, strict=True) if refused is None]
        await self.forget({ids[name] for name in deleted if name in ids})
        return results

    async def _delete(
        self,
        names: Sequence[str],
        take: TakePermits,
        checked: Mapping[str, bytes],
        ids: dict[str, bytes],
    ) -> list[Refused | None]:
        """Delete topics in one transaction, and add their ids to `ids`."""
        refusals: dict[str, Refused] = {}

        def decide(image: ClusterImage) -> list[Write]:
            ids.update({name: topic.id for name in names if (topic := image.topics.get(name))})
            writes, refused = delete_topics(image, self._settings, names, take, checked)
            refusals.clear()
            refusals.update(refused)
            return writes

        try:
            await self._writer.write(decide)
        except Refused as failed:
            return [refusals.get(name, failed) for name in names]
        return [refusals.get(name) for name in names]

    async def forget(self, topic_ids: Set[bytes]) -> None:
        """Delete the deletion records of these topics, except those of topics with folders on this
        broker. Do nothing if the records are those of the first broker of this machine.

        A deletion record is needed only until the topic's folders are deleted.
        """
        if self._settings.first_broker is not None:
            return
        forgotten = (self._follower.image.deletions.keys() & topic_ids) - self.undropped()
        try:
            await self._writer.delete(
                [records.deletion_key(uuid_to_string(topic_id)) for topic_id in sorted(forgotten)]
            )
        except OSError as error:
            # The next start deletes them.
            _log.warning("the deletion records of topics could not be deleted", reason=str(error))

    def _follow(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        if new.deletions is old.deletions:
            return
        # A topic of this broker's `delete` is also among these. Its record is then deleted twice.
        added = new.deletions.keys() - old.deletions.keys()
        self._remembered.update({topic_id: new.deletions[topic_id].name for topic_id in added})
        if self._remembered and (self._forgetting is None or self._forgetting.done()):
            self._forgetting = asyncio.create_task(
                self._forget_remembered(), name="deletion records"
            )

    async def _forget_remembered(self) -> None:
        while self._remembered:
            topics, self._remembered = self._remembered, {}
            try:
                await self._callbacks.deleted(list(topics.values()))
            except Refused:
                continue  # as in `delete`
            await self.forget(topics.keys())
