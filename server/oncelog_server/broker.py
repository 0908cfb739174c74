"""The composition root: it builds the broker's parts, connects them, and starts and stops them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

import structlog

from oncelog_protocol.errors import ProtocolError
from oncelog_server.background_tasks import BackgroundTasks
from oncelog_server.broker_parts import (
    new_group_coordinator,
    new_replica_manager,
    new_services,
    new_transaction_coordinator,
)
from oncelog_server.broker_security import BrokerSecurity
from oncelog_server.cluster.emptied_replicas import emptied_replicas
from oncelog_server.config import Settings
from oncelog_server.data_directory.lock import SeenRevision
from oncelog_server.deferred import Unheard
from oncelog_server.dispatch import Dispatch
from oncelog_server.durable_logs import close_logs, sync_recovered
from oncelog_server.dynamic_settings import DynamicSettings, follow_settings, limits_of_listener
from oncelog_server.environment import Environment
from oncelog_server.foundation import Foundation
from oncelog_server.handlers import all_handlers
from oncelog_server.hosting.last_stop import read_last_stop
from oncelog_server.late.late_cleaner import LateCleaner
from oncelog_server.late.late_imports import LateImports
from oncelog_server.late.late_replication import LateReplication
from oncelog_server.links.other_brokers import OtherBrokers
from oncelog_server.metadata.id_conflict import IdInUse
from oncelog_server.metadata.membership import DirectoryFacts
from oncelog_server.metadata.store_wait import StoreSilent, StoreWait
from oncelog_server.network.binding import CannotListen
from oncelog_server.network.listener import Listener, Requests
from oncelog_server.network.new_connections import connection_rates
from oncelog_server.newer_logs import NewerLogs
from oncelog_server.observe.partition_events import log_emptied
from oncelog_server.producer_id_supply import ProducerIdSupply
from oncelog_server.settings.listeners import (
    Endpoint,
    advertised_endpoints,
    inter_broker_listener,
    listeners_of,
)
from oncelog_server.startup.start_checks import StartChecks
from oncelog_server.storage.files import StorageError
from oncelog_server.strays import Folders
from oncelog_server.transaction.marker_delivery import LocalMarkers

if TYPE_CHECKING:
    from oncelog_server.cleaning.cleaner import LogCleaner
    from oncelog_server.log.checkpoints import MetaProperties
    from oncelog_server.observe.listener import MetricsListener
    from oncelog_server.partition.partition import Partition
    from oncelog_server.replica_failures import ReplicaFailures
    from oncelog_server.replication import Replication
    from oncelog_server.self_fencing import SelfFencing

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
        self._base = base = Foundation(settings, environment, self._is_known)
        self._environment, self._clock, self._timers = environment, base.clock, base.timers
        self._slices, self._tasks, self._files = base.slices, base.tasks, base.files
        self._refused_work, self._group_flush = base.refused_work, base.group_flush
        self.directory, self.partitions = base.directory, base.partitions
        Unheard.take = _log_defect
        self._late_imports = LateImports(self._timers)
        self.addresses: list[tuple[str, str, int]] = []
        # Closes the listeners that a failed start has bound.
        self._bound = ExitStack()
        self._late_cleaner = LateCleaner(self._timers, self._new_cleaner)
        self._late_replication = LateReplication(self._new_replication)
        # None without other brokers.
        self._self_fencing: SelfFencing | None = None
        self._replica_failures: ReplicaFailures | None = None

    # --- start

    async def start(self, wait: StoreWait | None = None) -> None:
        """Start to serve. `wait` is set if the start has waited for the metadata store already.

        Raises DirectoryInUse, ForeignDirectory or NeedsRecovery if the data directory is refused,
        OSError, StorageError or ValueError if another part fails to start.
        """
        self.directory.lock()
        try:
            await self._start(wait or StoreWait(self.settings))
        except BaseException:
            self._bound.close()
            # uvloop closes the sockets in the next turn of the loop.
            await asyncio.sleep(0)
            self.directory.release()
            raise

    async def _start(self, wait: StoreWait) -> None:
        started_ms = self._clock.monotonic_ms()
        meta = self.directory.meta_properties()
        checks = StartChecks(self.settings, self._environment, wait)
        self.metadata, next_producer_id = await checks.open_metadata(meta)
        was_clean = self.directory.has_clean_mark()
        try:
            endpoints, folders, facts = await self._open(checks, meta, next_producer_id, wait)
        except BaseException as error:
            await self.metadata.stop()
            if isinstance(error, (OSError, ValueError)):
                self._unmake()
            raise
        await self._join(endpoints, facts, wait)
        # After this wait, this broker leads all its partitions. The coordinators may still load
        # their shards, and respond COORDINATOR_LOAD_IN_PROGRESS until then.
        await self._replica_manager.settled(self.metadata.image.topics)
        self._keep_by_boot()
        await self._forget_deletions(folders)
        if self.settings.oncelog_brokers > 1:
            from oncelog_server.startup.awaited_brokers import await_brokers

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

    async def _open(
        self,
        checks: StartChecks,
        meta: MetaProperties | None,
        next_producer_id: int,
        wait: StoreWait,
    ) -> tuple[Sequence[Endpoint], Folders, DirectoryFacts]:
        """Build the parts, bind the listeners and open the partitions on disk. Raises the errors of
        `start`. The registration of the broker comes later."""
        self._dynamic_settings = DynamicSettings(self.settings, self.metadata.image)
        checks.check_identity(meta, self.metadata.image, next_producer_id)
        was_clean = self.directory.has_clean_mark()
        clean_stop_epoch = self.directory.clean_stop_epoch()
        self._producer_ids = ProducerIdSupply(self.metadata, self._tasks, next_producer_id)
        self._build(was_clean)
        endpoints = await self._bind_all(wait, is_new=meta is None)
        # The checks come first, because a refused start must change nothing.
        folders = checks.folders(self.metadata.image)
        identity = meta or checks.new_identity(self.metadata.image)
        self._log_emptied(identity.directory_id)
        self.directory.take_clean_mark()
        newer = NewerLogs(next_producer_id)
        with wait.uncounted():
            self._replica_manager.open_all(self.metadata.image, folders, newer)
        if newer.found:
            if was_clean:
                self._leave_clean_mark(clean_stop_epoch)
            raise checks.older(newer.found)
        if self.settings.oncelog_flush_on_ack and not was_clean:
            with wait.uncounted():
                await sync_recovered(self._files, self.partitions)
        facts = DirectoryFacts(identity.directory_id, self._environment.boot(), clean_stop_epoch)
        return endpoints, folders, facts

    async def _bind_all(self, wait: StoreWait, *, is_new: bool) -> Sequence[Endpoint]:
        """Bind all listeners. For a new directory, then wait until the broker's id is free."""
        self.security.check_users()
        endpoints = await self._bind(wait)
        self._metrics = await self._bind_metrics()
        if is_new and self.settings.has_metadata_elsewhere:
            await self.metadata.membership.await_free_id(wait)
        return endpoints

    def _unmake(self) -> None:
        """Leave a new directory as it was. The error of the start is raised, not one of this."""
        with suppress(OSError):
            self.directory.unmake()

    def _log_emptied(self, directory_id: str) -> None:
        """Log the partitions that a new directory lacks, before they are opened."""
        emptied = emptied_replicas(
            self.metadata.image,
            self.settings.node_id,
            directory_id,
            lambda: set(self._files.list("")),
        )
        log_emptied(emptied, str(self.directory.path))

    def _keep_by_boot(self) -> None:
        """Record the id of the computer's current boot, unless a partition is offline. If the disk
        refuses this, retry it until the disk has space."""
        try:
            self._write_boot()
        except StorageError as error:
            self._refused_work.add("boot id", error, self._write_boot, work="boot id")

    async def _join(
        self, endpoints: Sequence[Endpoint], facts: DirectoryFacts, wait: StoreWait
    ) -> None:
        """Write to the metadata store what it lacks, and join the cluster. If the store does not
        respond, or the broker's id is in use, restore the directory: a new directory is again
        without files, and an older directory has its mark of a clean stop again, if it had one.
        After a registration, the logs may have changed, and nothing is restored."""
        try:
            await self._producer_ids.take_first(wait)
            await self.security.create_first_users(wait)
            await self.metadata.register(endpoints, facts, wait)
        except (IdInUse, StoreSilent) as error:
            may_be_registered = self.metadata.membership.may_be_registered
            await self.metadata.stop(leaves=isinstance(error, IdInUse))
            if not may_be_registered:
                self._unmake()
                if facts.clean_stop_epoch:
                    self._leave_clean_mark(facts.clean_stop_epoch)
            raise
        membership = self.metadata.membership
        if self.settings.has_metadata_elsewhere:
            # A later start refuses a metadata store that is older than this revision.
            image = self.metadata.image
            newest = max(membership.broker_epoch, image.revision)
            seen = SeenRevision(newest, image.restored_at)
            self.directory.keep_cluster_revision(seen, self._files)
        if self.settings.has_metadata_elsewhere or not membership.is_alone:
            self._replica_manager.keep_revisions(self._background_tasks.keep_revision)
        if not membership.is_alone:
            self._replica_manager.follow_others()
            self._replica_failures = self._new_replica_failures()

    def _write_boot(self) -> None:
        if not self.partitions.offline():
            self.directory.keep_by(self._environment.boot(), self._files)

    async def _forget_deletions(self, folders: Folders) -> None:
        """Delete the deletion records of topics that have no folder on this broker. Before that,
        write checkpoints that do not contain these topics, and make them durable.
        """
        self.metadata.topic_removal.follow_others()
        without_folder = self.metadata.image.deletions.keys() - folders.remembered
        if without_folder:
            await self._background_tasks.last_checkpoint()
            await self.metadata.topic_removal.forget(without_folder)

    def _build(self, was_clean: bool) -> None:
        """Build the parts and connect them. Nothing starts here."""
        settings, clock = self.settings, self._clock
        self.security = BrokerSecurity(settings, self._environment, self._timers, self.metadata)
        boot = self._environment.boot()
        last_stop = read_last_stop(self.directory, boot, was_clean=was_clean)
        self._replica_manager = new_replica_manager(
            self._base, self.metadata, last_stop, self._producer_ids, self._late_replication
        )
        self.groups = new_group_coordinator(self._base, self.metadata)
        local = LocalMarkers(self.partitions.get, self.groups.offsets_marker, clock.now_ms)
        self._other_brokers = OtherBrokers(
            settings.node_id,
            lambda: self.metadata.image,
            inter_broker_listener(settings),
            self.security.of_links(),
        )
        self.transactions = new_transaction_coordinator(
            self._base, self.metadata, self._producer_ids, local, self._other_brokers
        )
        self._replica_manager.serve_coordinators(self.transactions, self.groups)
        self.services = new_services(
            self._base,
            self.metadata,
            self.transactions,
            self.groups,
            self._producer_ids,
            local,
            self._other_brokers,
            self.security.new_authorizer(),
            lambda: self._background_tasks.checkpoint(),
        )
        self._listener = self._new_listener()
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

    def _new_listener(self) -> Listener:
        """Return the listener. Its connections pass requests to the dispatch, through the parts
        that look at each request."""
        settings, clock = self.settings, self._clock
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
        limits = limits_of_listener(settings)
        return Listener(requests, limits, clock, self.services.quotas, rates)

    def _fenced(self, requests: Requests) -> Requests:
        """Return `requests` with a check of the registration before each request. Once the
        registration has ended, no leader and no coordinator of this broker serves a request."""
        from oncelog_server.self_fencing import CheckedRequests, CheckedTimers, SelfFencing

        authority = self.metadata.membership.authority
        fencing = SelfFencing(
            authority,
            self.partitions,
            self._timers,
            self._clock.boottime_ms,
            self._still_leads,
        )
        self._group_flush.before_callbacks = fencing.check
        self._other_brokers.check_authority = fencing.check
        self.services.timers = CheckedTimers(self._timers, fencing)
        self._self_fencing = fencing
        return CheckedRequests(requests, fencing)

    def _still_leads(self, partition: Partition) -> bool:
        """Return True if the image names this broker as the leader, in the epoch in which the
        partition was led last."""
        found = self.metadata.image.partition(*partition.topic_partition)
        return (
            found is not None
            and found.topic_id == partition.topic_id
            and found.leader == self.settings.node_id
            and found.leader_epoch == partition.leader_epoch
        )

    def _new_replica_failures(self) -> ReplicaFailures:
        from oncelog_server.replica_failures import ReplicaFailures

        return ReplicaFailures(
            self.settings, self.metadata, self.partitions, self._tasks, self._timers
        )

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
        self.metadata.subscribe(self._producer_ids.follow)
        self.metadata.topic_removal.undropped = self._replica_manager.undropped
        self.metadata.subscribe(
            self._replica_manager.follow,
            created=self._replica_manager.created,
            deleted=self._replica_manager.settled,
            give_up=self._replica_manager.give_up,
        )
        owners = self._base.producer_id_owners
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
            lambda: self._background_tasks.checkpoint_cleaned(),
        )
        self.metadata.subscribe(cleaner.follow)
        return cleaner

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

    async def _bind(self, wait: StoreWait) -> tuple[Endpoint, ...]:
        """Bind the listeners, which accept no connection yet. Return the addresses to register.

        Raises OSError if one cannot be bound.
        """
        self._bound.callback(self._listener.unbind)
        listeners = listeners_of(self.settings)
        ports: dict[str, int] = {}
        for listener in listeners:
            host, port = await self._listener.bind(
                await self.security.admission(listener, wait), listener.host, listener.port
            )
            ports[listener.name] = port
            self.addresses.append((listener.name, host, port))
        return advertised_endpoints(listeners, ports, await self._environment.host_name())

    def _is_known(self, topic: str, index: int) -> bool:
        return self.metadata.image.partition(topic, index) is not None

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
        if self._replica_failures is not None:
            self._replica_failures.stop()
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
        # The mark comes first. The environment waits for its threads, and the process may be killed
        # meanwhile.
        clean = clean and self._leave_clean_mark(self.metadata.membership.broker_epoch)
        self._environment.close()
        self.directory.release()
        log.info("broker stopped", clean=clean)

    def _leave_clean_mark(self, broker_epoch: int) -> bool:
        try:
            self.directory.leave_clean_mark(self._files, broker_epoch)
        except StorageError as error:
            log.error("the mark of a clean stop could not be written", reason=str(error))
            return False
        return True
