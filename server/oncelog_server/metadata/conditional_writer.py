"""Decides changes of the metadata from the image of the metadata store. If the store is ahead of
the image, the writer waits for the newer image and decides again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.store import LeaseEnded, MetadataStore, UnknownOutcome, Write
from oncelog_server.cluster.topic_deletion import deletions
from oncelog_server.cluster.write_sequence import bound
from oncelog_server.metadata.image_follower import ImageFollower
from oncelog_server.refusal import Refused

# Maximum number of attempts of a write while the metadata changes.
ATTEMPTS: Final = 20


class ConditionalWriter:
    """Changes the metadata. `follower` has the image, and follows the store."""

    def __init__(self, store: MetadataStore, follower: ImageFollower) -> None:
        self._store = store
        self._follower = follower
        # With one writer at a time, a decision is rarely based on a stale image.
        self._writing = asyncio.Lock()

    async def write(
        self,
        decide: Callable[[ClusterImage], list[Write]],
        *,
        validate_only: bool = False,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Make the writes that `decide` returns for the image. If the store is ahead of the image,
        wait for the image and call `decide` again.

        Return when the image shows the change. `before` is awaited before the change is written.
        Raises the errors of `decide` and `before`. Raises Refused if the store fails or keeps
        changing.
        """
        async with self._writing:
            for _ in range(ATTEMPTS):
                image = self._follower.image
                writes = decide(image)
                if validate_only or not writes:
                    return
                if before is not None:
                    await before()
                try:
                    revision = await self._apply(writes)
                except LeaseEnded as ended:
                    reason = f"the broker's registration has ended: {ended}"
                    raise Refused(ErrorCode.REQUEST_TIMED_OUT, reason) from ended
                except UnknownOutcome as unknown:
                    raise Refused(ErrorCode.REQUEST_TIMED_OUT, str(unknown)) from unknown
                except OSError as error:
                    raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
                if revision is not None:
                    await self._follower.reached(revision)
                    return
                await self._follower.reached(image.revision + 1)
        raise Refused(ErrorCode.REQUEST_TIMED_OUT, "the cluster's metadata keeps changing: retry")

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete keys without a condition, because no other request writes them. Raises OSError."""
        for write in deletions(keys):
            await self._store.txn(write.compare, write.operations)

    async def end_creations(self, topic_ids: Iterable[bytes]) -> None:
        """Delete the keys of failed creations, so that the controller removes their partitions."""
        keys = [
            records.creating_key(uuid_to_string(topic_id))
            for topic_id in topic_ids
            if topic_id in self._follower.image.creating
        ]
        # If the store fails, the keys end with the lease of this broker.
        with suppress(OSError):
            await self.delete(keys)

    async def _apply(self, writes: Sequence[Write]) -> int | None:
        """Return the revision of the last change. Return None if the conditions of a write did not
        hold."""
        revision = first = 0
        for write in writes:
            following = bound(write, first) if first else write
            result = await self._store.txn(following.compare, following.operations)
            if not result.succeeded:
                return None
            revision = max(revision, result.revision)
            first = first or revision
        return revision
