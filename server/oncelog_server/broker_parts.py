"""Makes the larger parts of a broker. `broker` connects them, and starts and stops them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog_server.broker_services import BrokerServices
from oncelog_server.broker_views import BrokerViews
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS
from oncelog_server.config import Settings
from oncelog_server.coordinator.routing import routing_of
from oncelog_server.deferred import Deferred
from oncelog_server.fetching.sessions import FetchSessions
from oncelog_server.foundation import Foundation
from oncelog_server.group.config import GroupConfig
from oncelog_server.group.coordinator import GroupCoordinator
from oncelog_server.hosting.directory_removal import DirectoryRemoval
from oncelog_server.hosting.last_stop import LastStop
from oncelog_server.hosting.log_opening import LogOpening
from oncelog_server.hosting.replica_manager import ReplicaManager
from oncelog_server.late.late_replication import LateReplication
from oncelog_server.links.other_brokers import OtherBrokers
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.observe.audit_log import logged_changes
from oncelog_server.observe.fences import log_stray_markers, logged_fences
from oncelog_server.producer_id_supply import ProducerIdSupply
from oncelog_server.producing.adding_retry import COORDINATOR_MS, AddingRetry
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.quotas.windows import Windows
from oncelog_server.security.authorizer import Authorizer
from oncelog_server.storage.files import StorageError
from oncelog_server.transaction.coordinator import TransactionCoordinator
from oncelog_server.transaction.marker_delivery import ImageLeaders, LocalMarkers
from oncelog_server.transaction.partition_adding import PartitionAdding
from oncelog_server.transaction.producer_id_quota import ProducerIdQuota

if TYPE_CHECKING:
    from oncelog_server.transaction.remote.other_coordinators import OtherCoordinators


def new_replica_manager(
    base: Foundation,
    metadata: ClusterMetadata,
    last_stop: LastStop,
    producer_ids: ProducerIdSupply,
    late_replication: LateReplication,
) -> ReplicaManager:
    environment, wall_ms = base.environment, base.clock.now_ms
    opening = LogOpening(
        base.settings,
        base.files,
        base.partitions,
        last_stop,
        wall_ms=wall_ms,
        request_flush=base.group_flush.request,
        jitter=lambda most: environment.random.randrange(most + 1) if most > 0 else 0,
        refused_ids=base.refused_ids,
        is_given_id=producer_ids.is_given,
        refused_work=base.refused_work,
        stop_following=late_replication.stop_following,
    )
    return ReplicaManager(
        base.settings.node_id,
        base.partitions,
        opening,
        DirectoryRemoval(base.files, base.refused_work, wall_ms, environment.new_uuid),
        broker_epoch=lambda: metadata.membership.epoch_in(metadata.image),
        slices=base.slices,
        refused_work=base.refused_work,
        follow=late_replication.follow,
        stop_following=late_replication.stop_following,
        lead_replicas=late_replication.started,
    )


def new_group_coordinator(base: Foundation, metadata: ClusterMetadata) -> GroupCoordinator:
    def partition_count() -> int:
        found = metadata.image.topics.get(CONSUMER_OFFSETS)
        return 0 if found is None else len(found.partitions)

    def new_member_id(client_id: str) -> str:
        return f"{client_id}-{uuid.UUID(bytes=base.environment.new_uuid())}"

    return GroupCoordinator(
        partition_count=partition_count,
        partition_of=routing_of(absolute_hash=metadata.image.absolute_hash),
        config=GroupConfig.of(base.settings),
        new_member_id=new_member_id,
        timers=base.timers,
        wall_ms=base.clock.now_ms,
        monotonic_ms=base.clock.monotonic_ms,
        work=base.slices.run,
    )


def new_transaction_coordinator(
    base: Foundation,
    metadata: ClusterMetadata,
    producer_ids: ProducerIdSupply,
    local: LocalMarkers,
    other_brokers: OtherBrokers,
) -> TransactionCoordinator:
    leaders = ImageLeaders(
        base.settings.node_id, metadata.follower, local, other_brokers.markers.sender
    )
    return TransactionCoordinator(
        partition_count=leaders.shard_count,
        partition_of=routing_of(absolute_hash=metadata.image.absolute_hash),
        leaders=leaders,
        new_producer_id=producer_ids.ids.take,
        is_given_id=producer_ids.is_given,
        owner_of_id=base.producer_id_owners.owner_of,
        timers=base.timers,
        wall_ms=base.clock.now_ms,
        monotonic_ms=base.clock.monotonic_ms,
        max_timeout_ms=base.settings.transaction_max_timeout_ms,
        fences=logged_fences(),
        on_stray_markers=log_stray_markers,
        work=base.slices.run,
    )


def new_services(
    base: Foundation,
    metadata: ClusterMetadata,
    transactions: TransactionCoordinator,
    groups: GroupCoordinator,
    producer_ids: ProducerIdSupply,
    local: LocalMarkers,
    other_brokers: OtherBrokers,
    authorizer: Authorizer,
    checkpoint: Callable[[], Deferred[StorageError | None]],
) -> BrokerServices:
    """Return the services that handlers use. `checkpoint` writes the checkpoints."""
    settings = base.settings

    def new_fetch_session_id() -> int:
        """Return a number from 0 to 2^31 - 1 that clients cannot guess."""
        return int.from_bytes(base.environment.token_bytes(4)) >> 1

    return BrokerServices(
        broker_id=settings.node_id,
        cluster_id=metadata.image.cluster_id,
        settings=settings,
        clock=base.clock,
        timers=base.timers,
        authorizer=authorizer,
        metadata=metadata,
        partitions=base.partitions,
        views=BrokerViews(settings.node_id, metadata, base.partitions, settings.data_directory),
        transactions=transactions,
        partition_adding=PartitionAdding(
            settings.node_id,
            transactions.add_partitions,
            transactions.coordinator_of,
            lambda broker_id, command: other_brokers.adding.add(broker_id, command),
        ),
        adding_retry=AddingRetry(
            base.clock.monotonic_ms,
            settings.add_partitions_to_txn_retry_backoff_ms,
            settings.add_partitions_to_txn_retry_backoff_max_ms,
            COORDINATOR_MS if settings.has_other_brokers else 0,
        ),
        groups=groups,
        other_coordinators=_other_coordinators(base, metadata, transactions, groups, other_brokers),
        fetch_sessions=FetchSessions(
            settings.max_incremental_fetch_session_cache_slots, new_fetch_session_id
        ),
        audit_trail=logged_changes(),
        local_markers=local,
        producer_ids=producer_ids.ids,
        producer_id_owners=base.producer_id_owners,
        producer_id_quota=ProducerIdQuota(
            settings.oncelog_max_producer_ids_per_address,
            settings.producer_id_expiration_ms,
            base.refused_ids,
        ),
        spawn=base.tasks.spawn,
        checkpoint=checkpoint,
        slices=base.slices,
        quotas=_new_quotas(settings, metadata, base.clock.monotonic_ms),
    )


def _other_coordinators(
    base: Foundation,
    metadata: ClusterMetadata,
    transactions: TransactionCoordinator,
    groups: GroupCoordinator,
    other_brokers: OtherBrokers,
) -> OtherCoordinators | None:
    if not base.settings.has_other_brokers:
        return None
    from oncelog_server.coordinator_sharing import other_coordinators

    return other_coordinators(
        base.settings.node_id,
        metadata,
        transactions,
        groups,
        other_brokers,
        base.clock,
        base.slices.run,
    )


def _new_quotas(
    settings: Settings, metadata: ClusterMetadata, monotonic_ms: Callable[[], int]
) -> QuotaGate:
    """Return the quotas of clients, which follow the metadata."""
    quotas = QuotaGate(
        monotonic_ms,
        Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1000),
        Windows(
            settings.controller_quota_window_num,
            settings.controller_quota_window_size_seconds * 1000,
        ),
    )
    quotas.follow(metadata.image.quotas)
    metadata.subscribe(lambda old, new, delta: quotas.follow(new.quotas))
    return quotas
