"""Deletes topics, and the records of their deletion when no broker needs these any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

import structlog

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
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
        broker.

        A deletion record is needed only until the topic's folders are deleted.
        """
        forgotten = (self._follower.image.deletions.keys() & topic_ids) - self.undropped()
        try:
            await self._writer.delete(
                [records.deletion_key(uuid_to_string(topic_id)) for topic_id in sorted(forgotten)]
            )
        except OSError as error:
            # The next start deletes them.
            _log.warning("the deletion records of topics could not be deleted", reason=str(error))
