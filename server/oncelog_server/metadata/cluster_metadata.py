"""This broker's view of the cluster's metadata, and the only way to change it.

The view is an image that follows the metadata store. An admin request writes by a conditional
transaction, and returns when the image has the revision of this transaction. This module runs on
the event loop; the store has its own thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import structlog

from oncelog_protocol.types import uuid_to_string
from oncelog_server.clock import boottime_ms
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.cluster.partition_limits import TakePermits
from oncelog_server.cluster.store import MetadataStore, Write
from oncelog_server.cluster.topics import CreatedTopic, NewTopic, check_creation
from oncelog_server.metadata.conditional_writer import ConditionalWriter
from oncelog_server.metadata.controller_election import ControllerElection
from oncelog_server.metadata.controller_loop import ControllerLoop
from oncelog_server.metadata.founding import NoCluster, found_cluster, random_uuid
from oncelog_server.metadata.image_follower import ImageFollower, Subscriber
from oncelog_server.metadata.membership import DirectoryFacts, Membership
from oncelog_server.metadata.missing_topics import MissingTopics
from oncelog_server.metadata.producer_id_blocks import ProducerIdBlocks
from oncelog_server.metadata.store_wait import StoreWait
from oncelog_server.metadata.topic_callbacks import TopicCallbacks, WaitForTopics
from oncelog_server.metadata.topic_creation import TopicCreation
from oncelog_server.metadata.topic_removal import TopicRemoval
from oncelog_server.refusal import Refused
from oncelog_server.settings.listeners import Endpoint
from oncelog_server.settings.model import Settings

T = TypeVar("T")

if TYPE_CHECKING:
    from oncelog_server.cluster.members import BrokerImage
    from oncelog_server.cluster.partition_additions import NewPartitions

    # A start needs no alterations, and imports none of these.
    from oncelog_server.cluster.reassignment_changes import PartitionTarget
    from oncelog_server.cluster.requested_elections import ElectionType, Outcome
    from oncelog_server.metadata.exit_monitor import ExitMonitor
    from oncelog_server.metadata.user_writes import UserWrites
    from oncelog_server.topic_partition import TopicPartition

_log = structlog.get_logger(__name__)


async def _result(work: Awaitable[T]) -> T | Refused:
    try:
        return await work
    except Refused as refused:
        return refused


class ClusterMetadata:
    """The cluster's metadata as this broker sees and changes them.

    Call `start` first, or `load` and later `register`. Call `stop` at the end. The methods for
    requests raise or return Refused, even if the store fails.
    """

    def __init__(
        self,
        store: MetadataStore,
        settings: Settings,
        *,
        new_uuid: Callable[[], bytes] = random_uuid,
        boottime_ms: Callable[[], int] = boottime_ms,
        exit_monitor: ExitMonitor | None = None,
    ) -> None:
        self._follower = follower = ImageFollower(store, boottime_ms)
        self._store = store
        self._settings = settings
        self._new_uuid = new_uuid
        self._writer = ConditionalWriter(store, follower)
        self.membership = membership = Membership(
            store,
            follower,
            settings,
            new_uuid=new_uuid,
            boottime_ms=boottime_ms,
            exit_monitor=exit_monitor,
        )
        election = ControllerElection(store, follower, membership, settings.node_id)
        self._controller = ControllerLoop(follower, self._writer, election, membership, settings)
        self.producer_ids = ProducerIdBlocks(store, follower)
        self._callbacks = TopicCallbacks(is_alone=lambda: membership.is_alone)
        self.topic_removal = TopicRemoval(self._writer, follower, self._callbacks, settings)
        self._creation = TopicCreation(
            self._writer,
            self._follower,
            self._callbacks,
            settings,
            new_uuid=new_uuid,
            forget_deletions=self.topic_removal.forget,
            lease_id=lambda: membership.lease_id,
        )
        self.missing_topics = MissingTopics(
            self._creation, follower, settings, is_alone=lambda: membership.is_alone
        )
        # Returns the brokers that Metadata lists although they are fenced.
        self.recently_fenced: Callable[[], Sequence[BrokerImage]] = tuple
        if settings.has_other_brokers:
            from oncelog_server.cluster.recently_fenced import RecentlyFenced
            from oncelog_server.metadata.barrier import Barrier

            self._writer.barrier = Barrier(
                store, follower, settings.node_id, lambda: membership.lease_id
            )
            fenced = RecentlyFenced(boottime_ms)
            follower.subscribe(fenced.follow)
            self.recently_fenced = fenced.brokers

    @property
    def image(self) -> ClusterImage:
        """Return the metadata at the newest revision that this broker has seen."""
        return self._follower.image

    @property
    def follower(self) -> ImageFollower:
        """Return the object that holds the image, for parts that read the image at every
        request."""
        return self._follower

    @property
    def store(self) -> MetadataStore:
        """Return the store, for writes that are decided outside of the image."""
        return self._store

    @cached_property
    def users(self) -> UserWrites:
        """The part that changes access rules, credentials and quotas. A start needs none of its
        imports."""
        from oncelog_server.metadata.user_writes import UserWrites

        return UserWrites(self._writer)

    # ── Life ─────────────────────────────────────────────────────────────────────────────────────

    async def start(
        self,
        endpoints: Sequence[Endpoint],
        *,
        cluster_id: str | None = None,
        directory: DirectoryFacts | None = None,
    ) -> None:
        """Load the metadata and join the cluster: `load`, then `register`."""
        await self.load(cluster_id=cluster_id)
        await self.register(endpoints, directory)

    async def load(self, *, cluster_id: str | None = None, founds: bool = True) -> None:
        """Read the image, and follow the store from then on.

        A new cluster gets `cluster_id`, or a random id. Raises OSError if the store cannot be read.
        Raises ValueError if a record cannot be decoded. Raises NoCluster if the store has no
        cluster and `founds` is False: an empty store must not become a new cluster for a broker
        that has data of another one.
        """
        if founds:
            await found_cluster(self._store, cluster_id or uuid_to_string(self._new_uuid()))
        elif await self._store.get(records.CLUSTER) is None:
            raise NoCluster("there is no record of the cluster")
        await self._follower.start()

    async def register(
        self,
        endpoints: Sequence[Endpoint],
        directory: DirectoryFacts | None = None,
        wait: StoreWait | None = None,
    ) -> None:
        """Join the cluster. If this broker becomes the controller, elect leaders for all partitions
        that need them. `wait` is that of the start.

        Raises OSError if the broker's id is taken or the store fails. Raises Refused if the
        election of leaders cannot be written.
        """
        wait = wait or StoreWait(self._settings)
        await self.membership.register(endpoints, directory or DirectoryFacts(), wait)
        await self._controller.start(wait.ends_s)

    async def move_leaders(self) -> None:
        """Move the leaders of this broker to other brokers before it stops. A broker without other
        brokers does nothing (controlled.shutdown.enable)."""
        if self.membership.is_alone or not self._settings.controlled_shutdown_enable:
            return
        from oncelog_server.metadata.controlled_shutdown import ControlledShutdown

        broker_id = self._settings.node_id
        await ControlledShutdown(self._store, self._follower, self.membership, broker_id).run()

    async def stop(self, *, leaves: bool = True) -> None:
        """Leave the cluster and close the store. Without `leaves`, because the store does not
        respond, a registration stays until this process has ended."""
        await self._creation.stop()
        await self.topic_removal.stop()
        await self._writer.stop()
        await self._controller.stop()
        await self.membership.stop_keeping()
        await self._follower.stop()
        try:
            if leaves:
                await self.membership.stop()
            else:
                await self.membership.abandon()
        except OSError as error:
            _log.warning(
                "the broker could not leave the cluster",
                broker=self._settings.node_id,
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
        """Call `callback(old, new, delta)` on every new image, before the method that made the
        change returns.

        The work that the callback starts may take longer. `created(names)` returns when these
        topics can be used. `deleted(names)` returns when nothing is left that could conflict with a
        new topic of the same name. If only this process uses the store and `created` raises Refused
        for a new topic, `give_up(name)` removes this topic from this broker, and its records are
        deleted from the store afterwards. `give_up` returns False if the topic holds data and must
        stay. After True, the topic must take no record, because the deletion may follow later.
        """
        self._follower.subscribe(callback)
        self._callbacks.add(created, deleted, give_up)

    @property
    def may_be_stale(self) -> bool:
        """Return True if other brokers may change the metadata, so that the image follows later."""
        return self._writer.barrier is not None

    async def catch_up(self) -> Refused | None:
        """Return when the image has every change that the store has now, for a request that is
        decided before its write. Return the error if the store fails."""
        try:
            await self._writer.catch_up()
        except Refused as refused:
            return refused
        return None

    # ── Changes ──────────────────────────────────────────────────────────────────────────────────

    async def create_topics(
        self,
        topics: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        take: TakePermits = None,
    ) -> list[CreatedTopic | Refused]:
        """Create topics. Return one result for each, in their order."""
        try:
            check_creation(self._settings, topics)
        except Refused as refused:
            return [refused] * len(topics)
        return await self._creation.create(topics, validate_only=validate_only, take=take)

    async def delete_topics(
        self,
        names: Sequence[str],
        take: TakePermits = None,
        ids: Mapping[str, bytes] = MappingProxyType({}),
    ) -> list[Refused | None]:
        """Delete topics, many in one transaction of the store. Return one result for each. A topic
        with another id than in `ids` gets UNKNOWN_TOPIC_OR_PARTITION."""
        return await self.topic_removal.delete(names, take, ids)

    async def create_partitions(
        self,
        topics: Sequence[NewPartitions],
        *,
        validate_only: bool = False,
        take: TakePermits = None,
    ) -> list[Refused | None]:
        """Add partitions to topics. Return one result for each, in their order."""
        from oncelog_server.cluster.partition_additions import check_additions, create_partitions

        async def add(partitions: NewPartitions) -> None:
            await self._writer.write(
                lambda image: create_partitions(
                    image, self._settings, partitions, take, lease_id=self.membership.lease_id
                ),
                validate_only=validate_only,
            )
            if validate_only:
                return
            try:
                await self._callbacks.created([partitions.topic])
            except Refused as refused:
                # The new number of partitions stays, because clients may have seen it. Clients may
                # have written to new partitions, or may have chosen a partition by key from this
                # number. Neither a client nor a consumer group accepts a smaller number. The broker
                # creates the missing partitions as soon as there is room on the disk.
                raise Refused(
                    refused.code,
                    f"Topic '{partitions.topic}' has {partitions.count} partitions now, but the "
                    "disk has no room for all of the new ones. Free some space: the broker then "
                    f"creates them without another request. ({refused.message})",
                ) from refused

        try:
            check_additions(self.image, topics)
        except Refused as refused:
            return [refused] * len(topics)
        return [await _result(add(topic)) for topic in topics]

    async def reassign_partitions(
        self, targets: Sequence[PartitionTarget], *, may_change_factor: bool = True
    ) -> list[Refused | None]:
        """Move partitions to other brokers, or cancel such moves. Return one result for each, in
        their order. `may_change_factor`: see `cluster.reassignment_changes`."""
        from oncelog_server.metadata.reassignments import write_reassignments

        rules = ElectionRules.of(self._settings)
        return await write_reassignments(
            self._writer, rules, targets, may_change_factor=may_change_factor
        )

    async def alter_topic_settings(
        self,
        name: str,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Replace a topic's own settings by the result of `change`. Raises Refused."""
        from oncelog_server.cluster.topic_alterations import alter_topic

        def decide(image: ClusterImage) -> list[Write]:
            topic = image.topics.get(name)
            own = change(topic.settings if topic is not None else {})
            return alter_topic(image, self._settings, name, own)

        await self._writer.write(decide, validate_only=validate_only)

    async def write(
        self, decide: Callable[[ClusterImage], list[Write]], *, validate_only: bool = False
    ) -> None:
        """Make the writes that `decide` returns for the image. It is called again if the store is
        ahead of the image. Raises Refused, and the errors of `decide`."""
        await self._writer.write(decide, validate_only=validate_only)

    async def alter_broker_settings(
        self,
        name: str,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Replace the dynamic settings of a broker, or those of all brokers for an empty name, by
        the result of `change`. Raises Refused."""
        from oncelog_server.cluster.broker_alterations import alter_broker

        def decide(image: ClusterImage) -> list[Write]:
            own = change(image.broker_config(name).settings)
            return alter_broker(image, self._settings, name, own)

        await self._writer.write(decide, validate_only=validate_only)

    async def elect_leaders(
        self,
        kind: ElectionType,
        wanted: Sequence[TopicPartition],
        unserved: Collection[TopicPartition],
    ) -> dict[TopicPartition, Outcome]:
        """Elect leaders. Return the outcome for each partition (see `requested_elections`)."""
        from oncelog_server.metadata.elections import elect_leaders

        rules = ElectionRules.of(self._settings)
        return await elect_leaders(self._writer, lambda: self.image, rules, kind, wanted, unserved)

    async def unregister_broker(self, broker_id: int) -> None:
        """Delete the registration of a fenced broker. Raises Refused."""
        from oncelog_server.cluster.registration import unregister

        await self._writer.write(lambda image: unregister(image, broker_id))
