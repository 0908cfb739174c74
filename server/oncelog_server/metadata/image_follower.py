"""Follows the store: keeps the image at the newest revision, and wakes the calls that wait for a
revision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

import structlog

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.store import (
    Compacted,
    FinalFailure,
    LostMetadata,
    MetadataStore,
    Snapshot,
)
from oncelog_server.metadata.turns import Turns
from oncelog_server.refusal import Refused

Subscriber = Callable[[ClusterImage, ClusterImage, ImageDelta], None]

# The first pause after a failed read of the store, and the longest. Each pause doubles, as in the
# store's own watch.
FIRST_PAUSE_S: Final = 0.1
LAST_PAUSE_S: Final = 2.0

_log = structlog.get_logger("oncelog_server.metadata.cluster_metadata")


def _log_broken(old: ClusterImage, new: ClusterImage, names: Collection[str] | None) -> None:
    """Log each topic that has lost the record of a partition. `names` are the topics that may have
    changed; None stands for all topics."""
    for name in new.topics if names is None else names:
        topic, before = new.topics.get(name), old.topics.get(name)
        if topic is not None and topic.missing and (before is None or not before.missing):
            _log.error(
                "partitions have no record in the metadata, and no leader: delete the topic",
                topic=name,
                partitions=topic.missing,
            )


class ImageFollower:
    """The image of the cluster. After `start` and until `stop`, each change of the store advances
    the image.

    Many changes arrive at once when the connection to the store returns. They are applied in turns
    of the loop of some milliseconds each, and so is the snapshot after a compaction, except for its
    subscribers. `monotonic_ms` is the time in ms.

    `failure` is the error after which the image no longer advances. It is None before, and after
    a stop. `on_failure` is called after each failure.
    """

    def __init__(self, store: MetadataStore, monotonic_ms: Callable[[], int]) -> None:
        self.image = ClusterImage()
        # The number of topics that have left the image.
        self.topics_deleted = 0
        self.failure: BaseException | None = None
        self.on_failure: Callable[[], None] = _do_nothing
        self._store = store
        self._monotonic_ms = monotonic_ms
        self._subscribers: list[Subscriber] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._watching: asyncio.Task[None] | None = None
        # The reason why the image no longer advances: `failure`, or the stop.
        self._ended: BaseException | None = None

    async def start(self) -> None:
        """Read the image, and follow the store from then on.

        Raises OSError if the store cannot be read. Raises ValueError if a record cannot be decoded.
        """
        self._advance(ClusterImage.of(await self._store.range("")))
        self._watching = asyncio.create_task(self._watch(), name="metadata watch")
        self._watching.add_done_callback(self._watch_ended)

    async def stop(self) -> None:
        """Stop following the store. Calls of `reached` that still wait raise Refused."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    def subscribe(self, callback: Subscriber) -> None:
        """Call `callback(old, new, delta)` on every new image, before `reached` returns for the
        revision of this image."""
        self._subscribers.append(callback)

    async def reached(self, revision: int) -> None:
        """Return when the image has reached `revision`. Raises Refused if the image no longer
        follows the store, or stops before it reaches `revision`."""
        if self._ended is not None:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(self._ended))
        if self.image.revision < revision:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((revision, future))
            await future

    def _advance(self, new: ClusterImage, names: Collection[str] | None = None) -> None:
        """Advance to the image `new`. `names` are the topics that may have changed, if known."""
        old, self.image = self.image, new
        delta = ImageDelta.between(old, new, names)
        self.topics_deleted += len(delta.topics_deleted)
        _log_broken(old, new, names)
        for subscriber in self._subscribers:
            try:
                subscriber(old, new, delta)
            except Exception:
                # The image has advanced, so the other subscribers must be called too.
                _log.exception(
                    "a part of the broker failed to follow the cluster's metadata",
                    revision=new.revision,
                )
        still: list[tuple[int, asyncio.Future[None]]] = []
        for revision, future in self._waiting:
            if revision > new.revision:
                still.append((revision, future))
            elif not future.done():
                future.set_result(None)
        self._waiting = still

    async def _watch(self) -> None:
        turns = Turns(self._monotonic_ms)
        while True:
            try:
                async for changes in self._store.watch("", self.image.revision + 1):
                    new, names = self.image.next([changes])
                    self._check(new)
                    self._advance(new, names)
                    await turns.step()
            except Compacted:
                new = await self._built(await self._read_again(), turns)
                self._check(new)
                self._advance(new)

    async def _read_again(self) -> Snapshot:
        """Return all records. While the store does not respond, retry, as its watch does: the image
        is stale meanwhile, and the registration of this broker ends if the store stays silent.
        Raises FinalFailure."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                snapshot = await self._store.range("")
            except FinalFailure:
                raise
            except OSError as error:
                if pause_s == FIRST_PAUSE_S:
                    reason = str(error)
                    _log.warning("the broker does not see changes of the metadata", reason=reason)
            else:
                if pause_s > FIRST_PAUSE_S:
                    _log.info("the broker sees changes of the metadata again")
                return snapshot
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)

    async def _built(self, snapshot: Snapshot, turns: Turns) -> ClusterImage:
        """Return the image of the whole store. Raises ValueError if a record cannot be decoded."""
        building = ClusterImage.building(snapshot)
        while True:
            try:
                next(building)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]  # typeshed has Any
            await turns.step()

    def _check(self, new: ClusterImage) -> None:
        """Raise LostMetadata if the image is not a later one of the same store."""
        old = self.image
        same = (new.cluster_id, new.restored_at) == (old.cluster_id, old.restored_at)
        if not same or new.revision < old.revision:
            raise LostMetadata("the metadata in etcd was restored while this broker ran")

    def _watch_ended(self, task: asyncio.Task[None]) -> None:
        """Refuse all calls of `reached` that wait, because the image no longer advances."""
        error = None if task.cancelled() else task.exception()
        self.failure = error
        self._ended = error or ConnectionError("the broker is stopping")
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                refused = Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(self._ended))
                future.set_exception(refused)
        if error is not None:
            _log.error(
                "the broker no longer follows the cluster's metadata: restart it",
                error=str(error),
                exc_info=None if isinstance(error, OSError) else error,
            )
            self.on_failure()


def _do_nothing() -> None:
    pass
