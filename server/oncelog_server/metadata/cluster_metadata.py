"""This broker's view of the cluster's metadata, and the only way to change it.

The view is an image that follows the store. Admin requests write by conditional transactions and
return when the image has reached their revision. All of it runs on the event loop; the store has
its own thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence, Set
from contextlib import suppress
from typing import Final, TypeVar

import structlog

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.controller import elect_leaders
from oncelog_server.cluster.image import BrokerImage, ClusterImage, TopicImage
from oncelog_server.cluster.internal_topics import internal_topic
from oncelog_server.cluster.producer_ids import ProducerIdBlock, next_block
from oncelog_server.cluster.store import (
    MAX_OPERATIONS,
    Created,
    Lease,
    MetadataStore,
    Put,
    Write,
)
from oncelog_server.cluster.topic_alterations import alter_topic
from oncelog_server.cluster.topic_deletion import (
    MAX_DELETED_AT_ONCE,
    delete_topics,
    deletions,
    removal,
)
from oncelog_server.cluster.topic_names import is_internal
from oncelog_server.cluster.topics import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    at_once,
    check_creation,
    create_partitions,
    create_topics,
)
from oncelog_server.metadata.founding import SUPPORTED_FEATURES, found_cluster, random_uuid
from oncelog_server.metadata.image_follower import ImageFollower, Subscriber
from oncelog_server.refusal import Refused
from oncelog_server.settings.listeners import Endpoint
from oncelog_server.settings.model import Settings

T = TypeVar("T")
WaitForTopics = Callable[[Collection[str]], Awaitable[None]]

# Kafka's broker.session.timeout.ms.
LEASE_TTL_MS: Final = 9000
# How often a write is decided again when the metadata changed meanwhile.
ATTEMPTS: Final = 20
# Interval between attempts to delete the records of a topic that has no room on disk.
UNDO_RETRY_S: Final = 1.0

_log = structlog.get_logger(__name__)


async def _result(work: Awaitable[T]) -> T | Refused:
    try:
        return await work
    except Refused as refused:
        return refused


async def _all(settled: Sequence[WaitForTopics], topics: Collection[str]) -> None:
    for wait in settled:
        await wait(topics)


class ClusterMetadata:
    """The cluster's metadata as this broker sees and changes it.

    Call `start`, or `load` and later `register`, before anything else, and `stop` at the end.
    Methods that change something raise Refused, also if the store fails.
    """

    def __init__(
        self,
        store: MetadataStore,
        settings: Settings,
        *,
        new_uuid: Callable[[], bytes] = random_uuid,
    ) -> None:
        self._follower = ImageFollower(store)
        self._store = store
        self._settings = settings
        self._broker_id = settings.node_id
        self._new_uuid = new_uuid
        self._lease: Lease | None = None
        self._created: list[WaitForTopics] = []
        self._deleted: list[WaitForTopics] = []
        self._give_up: list[Callable[[str], bool]] = []
        # Topics without room on disk whose records are still in the store: name -> id.
        self._not_undone: dict[str, bytes] = {}
        self._undoing: asyncio.Task[None] | None = None
        # Returns the ids of deleted topics of which this broker still has folders.
        self.undropped: Callable[[], Set[bytes]] = frozenset
        # With one writer at a time, a decision rarely meets a newer image.
        self._writing = asyncio.Lock()

    @property
    def image(self) -> ClusterImage:
        """Return the metadata at the newest revision that this broker has seen."""
        return self._follower.image

    # ── Life ─────────────────────────────────────────────────────────────────────────────────────

    async def start(self, endpoints: Sequence[Endpoint], *, cluster_id: str | None = None) -> None:
        """Load the metadata and join the cluster: `load`, then `register`."""
        await self.load(cluster_id=cluster_id)
        await self.register(endpoints)

    async def load(self, *, cluster_id: str | None = None, founds: bool = True) -> None:
        """Read the image and follow the store from then on.

        A new cluster gets `cluster_id`, or a random id. Raises OSError if the store cannot be read,
        ValueError if a record cannot be decoded, or if there is no cluster and `founds` is False.
        """
        if founds:
            await found_cluster(self._store, cluster_id or uuid_to_string(self._new_uuid()))
        elif await self._store.get(records.CLUSTER) is None:
            raise ValueError("there is no record of the cluster")
        await self._follower.start()
        await self._remove_orphans()

    async def register(self, endpoints: Sequence[Endpoint]) -> BrokerImage:
        """Join the cluster and lead this broker's partitions again. Return its registration.

        Raises OSError if the broker's id is taken.
        """
        lease = self._lease = await self._store.lease(LEASE_TTL_MS)
        record = records.BrokerRecord(
            uuid_to_string(self._new_uuid()),
            tuple(
                records.EndpointRecord(endpoint.listener, endpoint.host, endpoint.port)
                for endpoint in endpoints
            ),
            self._settings.broker_rack,
            dict(SUPPORTED_FEATURES),
        )
        key = records.broker_key(self._broker_id)
        compare = [Created(key, 0)]
        puts = [Put(key, records.encode(record), lease.id)]
        if self.image.controller_id == -1:
            controller = records.encode(records.ControllerRecord(self._broker_id))
            compare.append(Created(records.CONTROLLER, 0))
            puts.append(Put(records.CONTROLLER, controller, lease.id))
        result = await self._store.txn(compare, puts)
        if not result.succeeded:
            raise OSError(f"a broker with id {self._broker_id} is registered already")
        await self._follower.reached(result.revision)
        await self._write(lambda image: elect_leaders(image, image.brokers, {self._broker_id}))
        return self.image.brokers[self._broker_id]

    async def stop(self) -> None:
        """Leave the cluster and close the store."""
        if self._undoing is not None:
            self._undoing.cancel()
            await asyncio.wait([self._undoing])
        await self._follower.stop()
        if self._lease is not None:
            try:
                await self._lease.revoke()
            except OSError as error:
                _log.warning(
                    "the broker could not leave the cluster",
                    broker=self._broker_id,
                    reason=str(error),
                )
        await self._store.close()

    def subscribe(
        self,
        callback: Subscriber,
        *,
        created: WaitForTopics | None = None,
        deleted: WaitForTopics | None = None,
        give_up: Callable[[str], bool] | None = None,
    ) -> None:
        """Call `callback(old, new, delta)` on every new image, before the change returns.

        The work that the callback starts may take longer. `created(names)` returns when these
        topics can be used. `deleted(names)` returns when nothing is left that could conflict with a
        new topic of the same name. If `created` raises Refused, `give_up(name)` removes the new
        topic from this broker, and its records are deleted from the store afterwards. `give_up`
        returns False if the topic holds data and must stay.
        """
        self._follower.subscribe(callback)
        if created is not None:
            self._created.append(created)
        if deleted is not None:
            self._deleted.append(deleted)
        if give_up is not None:
            self._give_up.append(give_up)

    # ── Changes ──────────────────────────────────────────────────────────────────────────────────

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[CreatedTopic | Refused]:
        """Create topics. Return one result for each, in their order."""
        try:
            check_creation(self._settings, topics)
        except Refused as refused:
            return [refused] * len(topics)
        return await self._create_topics(topics, validate_only)

    async def create_missing_topic(self, name: str) -> TopicImage:
        """Return the topic; create it first if it does not exist.

        It gets the broker's defaults; an internal topic gets Kafka's settings for it.
        """
        refused = await self._create_missing([name])
        if name in refused:
            raise refused[name]
        topic = self.image.topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    async def create_missing_topics(self, names: Sequence[str]) -> dict[str, ErrorCode]:
        """Create the topics that do not exist. Return the error codes of those still missing."""
        refused = await self._create_missing(names)
        codes = {name: refusal.code for name, refusal in refused.items()}
        for name in names:
            if name not in self.image.topics:
                codes.setdefault(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return codes

    async def _create_missing(self, names: Sequence[str]) -> dict[str, Refused]:
        """Create the topics that do not exist. Return the refusals by name."""
        missing = [
            internal_topic(self.image, self._settings, name)
            if is_internal(name)
            else NewTopic(name)
            for name in names
            if name not in self.image.topics
        ]
        outcomes = await self._create_topics(missing, validate_only=False)
        return {
            new.name: outcome
            for new, outcome in zip(missing, outcomes, strict=True)
            if isinstance(outcome, Refused) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        }

    async def delete_topics(self, names: Sequence[str]) -> list[Refused | None]:
        """Delete topics, many in one transaction of the store. Return one result for each."""
        ids = {name: topic.id for name in names if (topic := self.image.topics.get(name))}
        results: list[Refused | None] = []
        for start in range(0, len(names), MAX_DELETED_AT_ONCE):
            results += await self._delete(names[start : start + MAX_DELETED_AT_ONCE])
        with suppress(Refused):  # the topics are deleted; only a new topic of the same name waits
            await _all(self._deleted, names)
        deleted = [name for name, refused in zip(names, results, strict=True) if refused is None]
        await self.forget_deletions({ids[name] for name in deleted if name in ids})
        return results

    async def _delete(self, names: Sequence[str]) -> list[Refused | None]:
        refusals: dict[str, Refused] = {}

        def decide(image: ClusterImage) -> list[Write]:
            writes, refused = delete_topics(image, self._settings, names)
            refusals.clear()
            refusals.update(refused)
            return writes

        try:
            await self._write(decide)
        except Refused as failed:
            return [refusals.get(name, failed) for name in names]
        return [refusals.get(name) for name in names]

    async def forget_deletions(self, topic_ids: Set[bytes]) -> None:
        """Delete the deletion records of these topics, except of those with folders on this broker.

        A deletion record is needed only until the topic's folders are deleted.
        """
        forgotten = (self.image.deletions.keys() & topic_ids) - self.undropped()
        ids = sorted(forgotten)
        try:
            for start in range(0, len(ids), MAX_OPERATIONS):
                batch = ids[start : start + MAX_OPERATIONS]
                keys = [records.deletion_key(uuid_to_string(topic_id)) for topic_id in batch]
                for write in deletions(keys):
                    await self._store.txn(write.compare, write.operations)
        except OSError as error:
            # The next start deletes them.
            _log.warning("the deletion records of topics could not be deleted", reason=str(error))

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[Refused | None]:
        """Add partitions to topics. Return one result for each, in their order."""

        async def add(partitions: NewPartitions) -> None:
            await self._write(
                lambda image: create_partitions(image, self._settings, partitions), validate_only
            )
            try:
                await _all(self._created, [partitions.topic])
            except Refused as refused:
                # The new count stays. Clients have seen it since the write: they may have written
                # to new partitions that exist, or placed keys by the new count. Neither a client
                # nor a consumer group accepts a smaller count. The missing partitions are created
                # as soon as there is room on the disk.
                raise Refused(
                    refused.code,
                    f"Topic '{partitions.topic}' has {partitions.count} partitions now, but the "
                    "disk has no room for all of the new ones. Free some space: the broker then "
                    f"creates them without another request. ({refused.message})",
                ) from refused

        return [await _result(add(topic)) for topic in topics]

    async def alter_topic_settings(
        self,
        name: str,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Replace a topic's own settings by what `change` returns for them. Raises Refused."""

        def decide(image: ClusterImage) -> list[Write]:
            topic = image.topics.get(name)
            own = change(topic.settings if topic is not None else {})
            return alter_topic(image, self._settings, name, own)

        await self._write(decide, validate_only)

    async def next_producer_id(self) -> int:
        """Return the first producer id of the next block.

        Raises OSError if the store fails, ValueError if the record cannot be decoded.
        """
        entry = await self._store.get(records.PRODUCER_IDS)
        if entry is None:
            return 0
        return records.decode(records.ProducerIdsRecord, entry.value).next_producer_id

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """Take a block of producer ids that no other broker has or will have. Raises Refused."""
        try:
            for _ in range(ATTEMPTS):
                block, write = next_block(await self._store.get(records.PRODUCER_IDS))
                result = await self._store.txn(write.compare, write.operations)
                if result.succeeded:
                    return block
        except OSError as error:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        raise Refused(
            ErrorCode.REQUEST_TIMED_OUT, "too many brokers allocate producer ids at once: retry"
        )

    # ── How ──────────────────────────────────────────────────────────────────────────────────────

    async def _create_topics(
        self, topics: Sequence[NewTopic], validate_only: bool
    ) -> list[CreatedTopic | Refused]:
        """Create topics, many in one transaction of the store. Return one result for each."""
        results: list[CreatedTopic | Refused] = []
        for batch in at_once(self._settings, topics):
            results += await self._create_at_once(batch, validate_only)
        return results

    async def _create_at_once(
        self, topics: Sequence[NewTopic], validate_only: bool
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
            outcomes, writes = create_topics(image, self._settings, new_topics)
            results.update(zip(ids, outcomes, strict=True))
            return writes

        try:
            await self._write(decide, validate_only, creates=[topics[index].name for index in ids])
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
                await _all(self._created, [created.name])
            except Refused as refused:
                await self._take_back(created.name, created.id)
                results[index] = refused

    async def _take_back(self, name: str, topic_id: bytes) -> None:
        """Delete a new topic that has no room on disk. If the store fails too, retry later."""
        topic = self.image.topics.get(name)
        if topic is None or topic.id != topic_id:
            return
        if not all(give_up(name) for give_up in self._give_up):
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
        """Delete the records of a topic that has no room on disk. Raises Refused."""

        def decide(image: ClusterImage) -> list[Write]:
            topic = image.topics.get(name)
            if topic is None or topic.id != self._not_undone.get(name):
                return []
            return removal(topic)

        await self._write(decide)
        topic_id = self._not_undone.pop(name, b"")
        await _all(self._deleted, [name])
        await self.forget_deletions({topic_id})

    async def _undo_all(self) -> None:
        while self._not_undone:
            await asyncio.sleep(UNDO_RETRY_S)
            for name in list(self._not_undone):
                with suppress(Refused):
                    await self._undo(name)
                    _log.info("a new topic without room on disk was deleted", topic=name)

    async def _write(
        self,
        decide: Callable[[ClusterImage], list[Write]],
        validate_only: bool = False,
        *,
        creates: Collection[str] = (),
    ) -> None:
        """Write what `decide` returns for the image; decide again if the store is ahead of it.

        Returns when the image shows the change. `creates` names the topics that it creates: their
        deleted predecessors are waited for first. Raises what `decide` raises, and Refused.
        """
        async with self._writing:
            for _ in range(ATTEMPTS):
                image = self.image
                writes = decide(image)
                if validate_only or not writes:
                    return
                await _all(self._deleted, creates)
                try:
                    revision = await self._apply(writes)
                except OSError as error:
                    raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
                if revision is not None:
                    await self._follower.reached(revision)
                    return
                await self._follower.reached(image.revision + 1)
        raise Refused(ErrorCode.REQUEST_TIMED_OUT, "the cluster's metadata keeps changing: retry")

    async def _apply(self, writes: Sequence[Write]) -> int | None:
        """Return the revision of the last write, None if the conditions of one did not hold."""
        revision = 0
        for write in writes:
            result = await self._store.txn(write.compare, write.operations)
            if not result.succeeded:
                return None
            revision = result.revision
        return revision

    async def _remove_orphans(self) -> None:
        keys = [
            records.partition_key(uuid_to_string(topic_id), partition)
            for topic_id, partition in self.image.orphans()
        ]
        for write in deletions(keys):
            await self._store.txn(write.compare, write.operations)
