"""The composition root: it builds the broker's parts, connects them, and starts and stops them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from oncelog_protocol.errors import ProtocolError
from oncelog_server.background_tasks import BackgroundTasks
from oncelog_server.broker_security import BrokerSecurity
from oncelog_server.broker_services import BrokerServices
from oncelog_server.broker_views import BrokerViews
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS
from oncelog_server.config import Settings
from oncelog_server.coordinator.routing import routing_of
from oncelog_server.deferred import Unheard
from oncelog_server.dispatch import Dispatch
from oncelog_server.durable_logs import close_logs, sync_recovered
from oncelog_server.dynamic_settings import DynamicSettings, follow_settings
from oncelog_server.environment import Environment
from oncelog_server.fetching.sessions import FetchSessions
from oncelog_server.group.config import GroupConfig
from oncelog_server.group.coordinator import GroupCoordinator
from oncelog_server.handlers import all_handlers
from oncelog_server.hosting.directory_removal import DirectoryRemoval
from oncelog_server.hosting.last_stop import LastStop, read_last_stop
from oncelog_server.hosting.log_opening import LogOpening
from oncelog_server.hosting.replica_manager import ReplicaManager
from oncelog_server.late_cleaner import LateCleaner
from oncelog_server.late_imports import LateImports
from oncelog_server.late_replication import LateReplication
from oncelog_server.links.other_brokers import OtherBrokers
from oncelog_server.metadata.membership import DirectoryFacts, IdInUse
from oncelog_server.network.binding import CannotListen
from oncelog_server.network.listener import Limits, Listener, Requests
from oncelog_server.network.new_connections import connection_rates
from oncelog_server.newer_logs import NewerLogs
from oncelog_server.observe.audit_log import logged_changes, logged_owners
from oncelog_server.observe.fences import log_refused_id, log_stray_markers, logged_fences
from oncelog_server.partition.group_flush import GroupFlush
from oncelog_server.partition.registry import Partitions
from oncelog_server.producer_id_supply import ProducerIdSupply
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.quotas.windows import Windows
from oncelog_server.refused_work import RefusedWork
from oncelog_server.request_tasks import RequestTasks
from oncelog_server.settings.listeners import (
    Endpoint,
    advertised_endpoints,
    inter_broker_listener,
    listeners_of,
)
from oncelog_server.slices import Slices
from oncelog_server.start_checks import StartChecks
from oncelog_server.storage.files import StorageError
from oncelog_server.strays import Folders
from oncelog_server.transaction.coordinator import TransactionCoordinator
from oncelog_server.transaction.marker_delivery import ImageLeaders, LocalMarkers
from oncelog_server.transaction.partition_adding import PartitionAdding
from oncelog_server.transaction.producer_id_quota import ProducerIdQuota, RefusedProducerIds

if TYPE_CHECKING:
    from oncelog_server.cleaning.cleaner import LogCleaner
    from oncelog_server.observe.listener import MetricsListener
    from oncelog_server.replication import Replication
    from oncelog_server.self_fencing import SelfFencing
    from oncelog_server.transaction.remote.other_coordinators import OtherCoordinators

log = structlog.get_logger("oncelog.broker")

# Time limit of the requests in flight at a stop.
DRAIN_S: Final = 1.0


def _log_defect(failure: Exception) -> None:
    if isinstance(failure, ProtocolError):
        return  # an invalid request of a client that has disconnected
    log.error("a defect outside of any request", exc_info=failure)


class Broker:
    """A broker. `start` opens its data directory and serves; `stop` ends it cleanly."""

    def __init__(self, settings: Settings, environment: Environment) -> None:
        self.settings = settings = settings.running()
        self._environment = environment
        self._clock = environment.clock
        self._loop = asyncio.get_running_loop()
        self._timers = environment.timers(self._loop)
        Unheard.take = _log_defect
        self._late_imports = LateImports(self._timers)
        self._slices = Slices(
            self._timers,
            self._clock.monotonic_ms,
            steps_per_slice=environment.steps_per_slice,
        )
        self._refused_work = RefusedWork(self._timers, self._clock.monotonic_ms)
        self.directory = environment.directory
        self._files = environment.files
        self.partitions = Partitions(self._is_known)
        self._group_flush = GroupFlush(self._files, self._clock.monotonic_ns)
        self._tasks = RequestTasks()
        self._producer_id_owners = logged_owners(self._clock.monotonic_ms)
        self._refused_ids = RefusedProducerIds(self._clock.monotonic_ms, log_refused_id)
        self.addresses: list[tuple[str, str, int]] = []
        # Closes the listeners that a failed start has bound.
        self._bound = ExitStack()
        self._late_cleaner = LateCleaner(self._timers, self._new_cleaner)
        self._late_replication = LateReplication(self._new_replication)
        # None without other brokers.
        self._self_fencing: SelfFencing | None = None

    # --- start

    async def start(self) -> None:
        """Start to serve.

        Raises DirectoryInUse, ForeignDirectory or NeedsRecovery if the data directory is refused,
        OSError, StorageError or ValueError if another part fails to start.
        """
        self.directory.lock()
        try:
            await self._start()
        except BaseException:
            self._bound.close()
            # uvloop closes the sockets in the next turn of the loop.
            await asyncio.sleep(0)
            self.directory.release()
            raise

    async def _start(self) -> None:
        started_ms = self._clock.monotonic_ms()
        meta = self.directory.meta_properties()
        checks = StartChecks(self.settings, self._environment)
        self.metadata, next_producer_id = await checks.open_metadata(meta)
        self._dynamic_settings = DynamicSettings(self.settings, self.metadata.image)
        identity = checks.check_identity(meta, self.metadata.image, next_producer_id)
        was_clean = self.directory.has_clean_mark()
        clean_stop_epoch = self.directory.clean_stop_epoch()
        self._producer_ids = ProducerIdSupply(self.metadata, self._tasks, next_producer_id)
        self._build(was_clean)
        try:
            self.security.check_users()
            endpoints = await self._bind()
            self._metrics = await self._bind_metrics()
        except (OSError, ValueError):
            await self.metadata.stop()
            with suppress(OSError):  # the error of the port is raised, not one of `unmake`
                self.directory.unmake()
            raise
        # The checks come first, because a refused start must change nothing.
        folders = checks.folders(self.metadata.image)
        self.directory.take_clean_mark()
        newer = NewerLogs(next_producer_id)
        self._replica_manager.open_all(self.metadata.image, folders, newer)
        if newer.found:
            if was_clean:
                self._leave_clean_mark(clean_stop_epoch)
            raise checks.older(newer.found)
        await self._producer_ids.take()
        if self.settings.oncelog_flush_on_ack and not was_clean:
            await sync_recovered(self._files, self.partitions)
        await self.security.create_first_users()
        await self._register(endpoints, identity.directory_id, clean_stop_epoch)
        # After this wait, this broker leads all its partitions. The coordinators may still load
        # their shards, and respond COORDINATOR_LOAD_IN_PROGRESS until then.
        await self._replica_manager.settled(self.metadata.image.topics)
        self._keep_by_boot()
        await self._forget_deletions(folders)
        if self.settings.oncelog_brokers > 1:
            from oncelog_server.awaited_brokers import await_brokers

            await await_brokers(self.metadata, self.settings)
        try:
            await self._listener.accept()
            if self._metrics is not None:
                await self._metrics.accept()
        except CannotListen:  # another process has taken the port since the bind
            await self.stop()
            raise
        self._background_tasks.start(folders.unfinished)
        self._late_imports.start()
        self._late_cleaner.start()
        log.info(
            "broker started",
            partitions=len(self.partitions),
            # A new directory has no mark of a clean stop, and nothing to recover.
            clean=was_clean or meta is None,
            ms=self._clock.monotonic_ms() - started_ms,
        )

    def _keep_by_boot(self) -> None:
        """Record the id of the computer's current boot, unless a partition is offline. If the disk
        refuses this, retry it until the disk has space."""
        try:
            self._write_boot()
        except StorageError as error:
            self._refused_work.add("boot id", error, self._write_boot, work="boot id")

    async def _register(
        self, endpoints: Sequence[Endpoint], directory_id: str, clean_stop_epoch: int
    ) -> None:
        """Join the cluster. If the broker's id is in use, leave the directory as it was before the
        start: without files if it was new, else with its mark of a clean stop, if it had one."""
        facts = DirectoryFacts(directory_id, self._environment.boot(), clean_stop_epoch)
        try:
            await self.metadata.register(endpoints, facts)
        except IdInUse:
            await self.metadata.stop()
            with suppress(OSError):  # the error of the id is raised, not one of `unmake`
                self.directory.unmake()
            if clean_stop_epoch:
                self._leave_clean_mark(clean_stop_epoch)
            raise
        membership = self.metadata.membership
        if self.settings.has_metadata_elsewhere:
            # A later start refuses a metadata store that is older.
            self.directory.keep_cluster_revision(membership.broker_epoch, self._files)
        if not membership.is_alone:
            self._replica_manager.follow_others()

    def _write_boot(self) -> None:
        if not self.partitions.offline():
            self.directory.keep_by(self._environment.boot(), self._files)

    async def _forget_deletions(self, folders: Folders) -> None:
        """Delete the deletion records of topics that have no folder on this broker. Before that,
        write checkpoints that do not contain these topics, and make them durable.
        """
        without_folder = self.metadata.image.deletions.keys() - folders.remembered
        if without_folder:
            await self._background_tasks.last_checkpoint()
            await self.metadata.forget_deletions(without_folder)

    def _build(self, was_clean: bool) -> None:
        """Build the parts and connect them. Nothing starts here."""
        settings, clock = self.settings, self._clock
        self.security = BrokerSecurity(settings, self._environment, self._timers, self.metadata)
        boot = self._environment.boot()
        last_stop = read_last_stop(self.directory, boot, was_clean=was_clean)
        self._replica_manager = self._new_replica_manager(last_stop)
        self.groups = self._new_group_coordinator()
        local = LocalMarkers(self.partitions.get, self.groups.offsets_marker, clock.now_ms)
        self._other_brokers = OtherBrokers(
            settings.node_id,
            lambda: self.metadata.image,
            inter_broker_listener(settings),
            self.security.of_links(),
        )
        self.transactions = self._new_transaction_coordinator(local)
        self._replica_manager.serve_coordinators(self.transactions, self.groups)
        self.services = self._new_services(local)
        has_metrics = settings.oncelog_metrics_port >= 0
        errors = None
        if has_metrics:
            from oncelog_server.requests.error_counts import ErrorCounts

            errors = ErrorCounts()
        self._dispatch = Dispatch(self.services, all_handlers(), errors)
        requests = self._environment.watched(
            self._dispatch, lambda topic_id: self.metadata.image.topic_name(topic_id)
        )
        if settings.has_other_brokers:
            requests = self._fenced(requests)
        if has_metrics:
            from oncelog_server.observe.timed_requests import TimedRequests

            requests = self._timed = TimedRequests(requests, clock.monotonic_ns)
        rates = connection_rates(settings)
        limits = Limits.of(settings)
        self._listener = Listener(requests, limits, clock, self.services.quotas, rates)
        self._background_tasks = BackgroundTasks(
            settings,
            clock,
            self._timers,
            self.partitions,
            self.transactions,
            self._group_flush,
            self.directory,
            self._files,
            self._slices,
            forgotten=last_stop.unknown_topics(self.metadata.image.topics),
            refused_work=self._refused_work,
        )
        self._follow_metadata()

    def _fenced(self, requests: Requests) -> Requests:
        """Return requests that no leader and no coordinator serves after the registration."""
        from oncelog_server.self_fencing import CheckedRequests, SelfFencing

        authority = self.metadata.membership.authority
        fencing = SelfFencing(authority, self.partitions, self._timers, self._clock.boottime_ms)
        self._group_flush.before_callbacks = fencing.check
        self._self_fencing = fencing
        return CheckedRequests(requests, fencing)

    def _follow_metadata(self) -> None:
        """Let the parts follow the image. They are called in this order."""
        self._dynamic_settings.on_change(self._replica_manager.settings_changed)
        self._dynamic_settings.on_change(lambda: follow_settings(self._listener, self.settings))
        self._dynamic_settings.on_change(
            lambda: self.services.producer_id_quota.follow(
                self.settings.producer_id_expiration_ms, self._clock.monotonic_ms()
            )
        )
        self.metadata.subscribe(self._dynamic_settings.follow)
        self.metadata.undropped = self._replica_manager.undropped
        self.metadata.subscribe(
            self._replica_manager.follow,
            created=self._replica_manager.created,
            deleted=self._replica_manager.settled,
            give_up=self._replica_manager.give_up,
        )
        owners = self._producer_id_owners
        owners.follow(self.metadata.image.producer_id_owners)
        self.metadata.subscribe(lambda old, new, delta: owners.follow(new.producer_id_owners))
        self.metadata.subscribe(self.groups.follow)
        self.metadata.subscribe(self._other_brokers.follow)
        self.metadata.subscribe(self.transactions.follow)
        self.metadata.subscribe(
            self._background_tasks.follow, deleted=self._background_tasks.forgotten
        )

    def _new_cleaner(self) -> LogCleaner:
        from oncelog_server.cleaning.cleaner import LogCleaner

        cleaner = LogCleaner(
            self.settings,
            self._clock,
            self._timers,
            self.partitions,
            self._files,
            self._environment.clean,
            self._refused_work,
        )
        self.metadata.subscribe(cleaner.follow)
        return cleaner

    def _new_replica_manager(self, last_stop: LastStop) -> ReplicaManager:
        environment, wall_ms = self._environment, self._clock.now_ms
        opening = LogOpening(
            self.settings,
            self._files,
            self.partitions,
            last_stop,
            wall_ms=wall_ms,
            request_flush=self._group_flush.request,
            jitter=lambda most: environment.random.randrange(most + 1) if most > 0 else 0,
            refused_ids=self._refused_ids,
            is_given_id=self._producer_ids.is_given,
            refused_work=self._refused_work,
        )
        return ReplicaManager(
            self.settings.node_id,
            self.partitions,
            opening,
            DirectoryRemoval(self._files, self._refused_work, wall_ms, environment.new_uuid),
            broker_epoch=lambda: self.metadata.membership.epoch_in(self.metadata.image),
            slices=self._slices,
            refused_work=self._refused_work,
            follow=self._late_replication.follow,
            stop_following=self._late_replication.stop_following,
            lead_replicas=self._late_replication.started,
        )

    def _new_replication(self) -> Replication:
        from oncelog_server.replication import BrokerParts, Replication

        replication = Replication(
            BrokerParts(
                self.settings,
                self.metadata,
                self.partitions,
                self._files,
                self._clock,
                self._timers,
                self._slices,
                self._tasks.spawn,
                self.security.of_links(),
                lambda: self._background_tasks.checkpoint(),
            )
        )
        self.services.follower_joins = replication.joins
        self.services.follower_waits = replication.follower_waits
        self.services.replication = replication.view
        self.services.follower_lag = replication.fetchers.lag_of
        self.services.leader_throttle = replication.throttles.leader
        self.services.replication_traffic = replication.traffic
        self.metadata.subscribe(replication.changed)
        return replication

    def _new_group_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            partition_count=partial(self._partition_count, CONSUMER_OFFSETS),
            partition_of=routing_of(absolute_hash=self.metadata.image.absolute_hash),
            config=GroupConfig.of(self.settings),
            new_member_id=self._new_member_id,
            timers=self._timers,
            wall_ms=self._clock.now_ms,
            monotonic_ms=self._clock.monotonic_ms,
            work=self._slices.run,
        )

    def _new_member_id(self, client_id: str) -> str:
        return f"{client_id}-{uuid.UUID(bytes=self._environment.new_uuid())}"

    def _new_transaction_coordinator(self, local: LocalMarkers) -> TransactionCoordinator:
        remote = self._other_brokers.markers.sender
        leaders = ImageLeaders(self.settings.node_id, self.metadata.follower, local, remote)
        return TransactionCoordinator(
            partition_count=leaders.shard_count,
            partition_of=routing_of(absolute_hash=self.metadata.image.absolute_hash),
            leaders=leaders,
            new_producer_id=self._producer_ids.ids.take,
            is_given_id=self._producer_ids.is_given,
            owner_of_id=self._producer_id_owners.owner_of,
            timers=self._timers,
            wall_ms=self._clock.now_ms,
            monotonic_ms=self._clock.monotonic_ms,
            max_timeout_ms=self.settings.transaction_max_timeout_ms,
            fences=logged_fences(),
            on_stray_markers=log_stray_markers,
            work=self._slices.run,
        )

    def _new_services(self, local: LocalMarkers) -> BrokerServices:
        fetch_sessions = FetchSessions(
            self.settings.max_incremental_fetch_session_cache_slots,
            self._new_fetch_session_id,
        )
        return BrokerServices(
            broker_id=self.settings.node_id,
            cluster_id=self.metadata.image.cluster_id,
            settings=self.settings,
            clock=self._clock,
            timers=self._timers,
            authorizer=self.security.new_authorizer(),
            metadata=self.metadata,
            partitions=self.partitions,
            views=BrokerViews(
                self.settings.node_id,
                self.metadata,
                self.partitions,
                self.settings.data_directory,
            ),
            transactions=self.transactions,
            partition_adding=PartitionAdding(
                self.settings.node_id,
                self.transactions.add_partitions,
                self.transactions.coordinator_of,
                self._other_brokers.adding.add,
            ),
            groups=self.groups,
            other_coordinators=self._new_other_coordinators(),
            fetch_sessions=fetch_sessions,
            audit_trail=logged_changes(),
            local_markers=local,
            producer_ids=self._producer_ids.ids,
            producer_id_owners=self._producer_id_owners,
            producer_id_quota=ProducerIdQuota(
                self.settings.oncelog_max_producer_ids_per_address,
                self.settings.producer_id_expiration_ms,
                self._refused_ids,
            ),
            spawn=self._tasks.spawn,
            checkpoint=lambda: self._background_tasks.checkpoint(),
            slices=self._slices,
            quotas=self._new_quotas(),
        )

    def _new_other_coordinators(self) -> OtherCoordinators | None:
        if not self.settings.has_other_brokers:
            return None
        from oncelog_server.coordinator_sharing import other_coordinators

        return other_coordinators(
            self.settings.node_id,
            self.metadata,
            self.transactions,
            self.groups,
            self._other_brokers,
            self._clock,
            self._slices.run,
        )

    def _new_fetch_session_id(self) -> int:
        """Return a number from 0 to 2^31 - 1 that clients cannot guess."""
        return int.from_bytes(self._environment.token_bytes(4)) >> 1

    def _new_quotas(self) -> QuotaGate:
        settings = self.settings
        quotas = QuotaGate(
            self._clock.monotonic_ms,
            Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1000),
            Windows(
                settings.controller_quota_window_num,
                settings.controller_quota_window_size_seconds * 1000,
            ),
        )
        quotas.follow(self.metadata.image.quotas)
        self.metadata.subscribe(lambda old, new, delta: quotas.follow(new.quotas))
        return quotas

    async def _bind_metrics(self) -> MetricsListener | None:
        """Return the listener for metrics, None if `oncelog.metrics.port` is -1.

        Raises OSError if it cannot be bound.
        """
        if self.settings.oncelog_metrics_port < 0:
            return None
        from oncelog_server.observe.serving import bind_metrics

        metrics = await bind_metrics(
            self.services,
            self._dispatch,
            self._listener,
            lambda: self._late_cleaner.cleaner,
            self._timed,
            self._group_flush.latencies,
        )
        self._bound.callback(metrics.stop)
        return metrics

    async def _bind(self) -> tuple[Endpoint, ...]:
        """Bind the listeners, which accept no connection yet. Return the addresses to register.

        Raises OSError if one cannot be bound.
        """
        self._bound.callback(self._listener.unbind)
        listeners = listeners_of(self.settings)
        ports: dict[str, int] = {}
        for listener in listeners:
            host, port = await self._listener.bind(
                await self.security.admission(listener), listener.host, listener.port
            )
            ports[listener.name] = port
            self.addresses.append((listener.name, host, port))
        return advertised_endpoints(listeners, ports, await self._environment.host_name())

    def _is_known(self, topic: str, index: int) -> bool:
        return self.metadata.image.partition(topic, index) is not None

    def _partition_count(self, topic: str) -> int:
        found = self.metadata.image.topics.get(topic)
        return 0 if found is None else len(found.partitions)

    # --- stop

    async def stop(self) -> None:
        """Move the leaders to other brokers, finish the requests in flight, make all data durable,
        write the mark of a clean stop."""
        await self.metadata.move_leaders()
        await self._listener.stop(DRAIN_S)
        self._late_imports.stop()
        self._background_tasks.stop()
        self._replica_manager.stop()
        self._refused_work.stop()
        if self._metrics is not None:
            self._metrics.stop()
        self.groups.stop()
        await self._late_cleaner.stop()
        self._tasks.stop()
        self._other_brokers.close()
        self._late_replication.stop()
        await self.security.close()
        self.services.authorizer.flush()
        self.services.producer_id_owners.flush()
        if self._self_fencing is not None:
            self._self_fencing.stop()
        await self.metadata.stop()
        clean = await close_logs(self._files, self.partitions, self._slices)
        # The checkpoints are written even if a log could not be closed, because a checkpoint in
        # flight must finish.
        clean = await self._background_tasks.last_checkpoint(remembers_logs=clean) is None and clean
        self._slices.stop()
        self._environment.close()
        clean = clean and self._leave_clean_mark(self.metadata.membership.broker_epoch)
        self.directory.release()
        log.info("broker stopped", clean=clean)

    def _leave_clean_mark(self, broker_epoch: int) -> bool:
        try:
            self.directory.leave_clean_mark(self._files, broker_epoch)
        except StorageError as error:
            log.error("the mark of a clean stop could not be written", reason=str(error))
            return False
        return True
