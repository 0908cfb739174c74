"""Decides changes of the metadata from the image of the metadata store. If the store is ahead of
the image, the writer waits for the newer image and decides again. Requests of clients first wait
for all earlier changes, because a refusal writes nothing that could show a stale image."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.store import LeaseEnded, MetadataStore, UnknownOutcome, Write
from oncelog_server.cluster.topic_deletion import deletions
from oncelog_server.cluster.write_sequence import bound
from oncelog_server.metadata.image_follower import ImageFollower
from oncelog_server.metadata.unfinished_creations import UnfinishedCreations
from oncelog_server.refusal import Refused, StoreFailed

if TYPE_CHECKING:
    from oncelog_server.metadata.barrier import Barrier

# Maximum number of attempts of a write while the metadata changes.
ATTEMPTS: Final = 20


class _Change:
    """A change that a caller of `write` wants. Its writes are decided once for each image."""

    def __init__(
        self,
        decide: Callable[[ClusterImage], list[Write]],
        before: Callable[[], Awaitable[None]] | None,
        *,
        validate_only: bool,
    ) -> None:
        self._decide = decide
        self._before = before
        self._validate_only = validate_only
        self._image: ClusterImage | None = None
        self._writes: list[Write] = []
        # The number of deleted topics at the last call of `prepare`.
        self._prepared_at: int | None = None

    def writes(self, image: ClusterImage) -> list[Write]:
        """Return the writes for the image, none for a validation. Raises the errors of `decide`."""
        if image is not self._image:
            self._writes = self._decide(image)
            self._image = image
        return [] if self._validate_only else self._writes

    def is_prepared(self, topics_deleted: int) -> bool:
        return self._before is None or self._prepared_at == topics_deleted

    async def prepare(self, topics_deleted: int) -> None:
        """Await `before`, after the deletion of so many topics. Raises its errors."""
        self._prepared_at = topics_deleted
        if self._before is not None:
            await self._before()


class ConditionalWriter:
    """Changes the metadata. `follower` has the image, and follows the store. `barrier` is set if
    the cluster may have other brokers."""

    def __init__(self, store: MetadataStore, follower: ImageFollower) -> None:
        self.barrier: Barrier | None = None
        self._store = store
        self._follower = follower
        self._unfinished = UnfinishedCreations(store)
        # With one writer at a time, a decision is rarely based on a stale image.
        self._writing = asyncio.Lock()

    async def write(
        self,
        decide: Callable[[ClusterImage], list[Write]],
        *,
        validate_only: bool = False,
        before: Callable[[], Awaitable[None]] | None = None,
        catches_up: bool = True,
    ) -> None:
        """Make the writes that `decide` returns for the image. If the store is ahead of the image,
        wait for the image and call `decide` again.

        Return when the image shows the change. `before` is awaited before the change is written,
        and again if topics are deleted meanwhile. Other writes, such as elections, do not wait for
        `before`. With `catches_up`, the image of the first decision has every change that the store
        had at the time of this call: no response to a client is stale. Without it, the caller must
        decide again at later images. Raises the errors of `decide` and `before`. Raises StoreFailed
        if the store fails, Refused if it keeps changing.
        """
        # Other work of the loop runs here: a request may name thousands of resources, and a refusal
        # or a validation awaits nothing else.
        await asyncio.sleep(0)
        if catches_up:
            await self.catch_up()
        change = _Change(decide, before, validate_only=validate_only)
        for _ in range(ATTEMPTS):
            async with self._writing:
                try:
                    if await self._make(change):
                        return
                finally:
                    await self._unfinished.end()
            await change.prepare(self._follower.topics_deleted)
        raise _keeps_changing()

    async def _make(self, change: _Change) -> bool:
        """Make the writes of a change. Return False, and write nothing more, if the change must be
        prepared first."""
        for _ in range(ATTEMPTS):
            image = self._follower.image
            writes = change.writes(image)
            if not writes:
                return True
            if not change.is_prepared(self._follower.topics_deleted):
                return False
            revision = await self._try(writes)
            if revision is not None:
                await self._follower.reached(revision)
                return True
            await self._follower.reached(image.revision + 1)
        raise _keeps_changing()

    async def catch_up(self) -> None:
        """Return when the image has every change that the store has now. Raises StoreFailed if the
        store fails."""
        if self.barrier is not None:
            await self.barrier.wait()

    async def stop(self) -> None:
        """Stop the attempts to end failed creations."""
        await self._unfinished.stop()

    async def _try(self, writes: Sequence[Write]) -> int | None:
        """Return the result of `_apply`. Raises StoreFailed if the store fails."""
        try:
            return await self._apply(writes)
        except LeaseEnded as ended:
            reason = f"the broker's registration has ended: {ended}"
            raise StoreFailed(ErrorCode.REQUEST_TIMED_OUT, reason) from ended
        except UnknownOutcome as unknown:
            raise StoreFailed(ErrorCode.REQUEST_TIMED_OUT, str(unknown)) from unknown
        except OSError as error:
            raise StoreFailed(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete keys without a condition, because no other request writes them. Raises OSError."""
        for write in deletions(keys):
            await self._store.txn(write.compare, write.operations)

    async def _apply(self, writes: Sequence[Write]) -> int | None:
        """Return the revision of the last change. Return None if the conditions of a write did not
        hold."""
        creating = self._unfinished.begin(writes)
        revision = first = 0
        for write in writes:
            following = bound(write, first) if first else write
            result = await self._store.txn(following.compare, following.operations)
            if not result.succeeded:
                if not first:
                    self._unfinished.complete(creating)
                return None
            revision = max(revision, result.revision)
            first = first or revision
        self._unfinished.complete(creating)
        return revision


def _keeps_changing() -> Refused:
    return Refused(ErrorCode.REQUEST_TIMED_OUT, "the cluster's metadata keeps changing: retry")
