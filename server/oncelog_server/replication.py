"""The parts of a broker that replication needs: the fetchers of the partitions that other brokers
lead, and the changes of the ISR of the partitions that other brokers follow. A single broker
imports none of this."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from oncelog_server.clock import Clock
from oncelog_server.cluster.delta import ImageDelta, PartitionChange
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.isr_changes import Leader
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.config import Settings
from oncelog_server.deferred import Deferred
from oncelog_server.fetcher.leader_fetcher import FetchSettings
from oncelog_server.fetching.follower_waits import FollowerWaits
from oncelog_server.isr_duty import IsrDuty, IsrWriter
from oncelog_server.links.broker_link import BrokerLinks
from oncelog_server.links.client_ids import fetcher_client_id
from oncelog_server.links.fetcher import FetcherParts, ReplicaFetchers
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.metadata.isr_writes import write_isr
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.registry import Partitions
from oncelog_server.replica.isr_changes import IsrOutcome, IsrProposal
from oncelog_server.replica.traffic import ReplicationTraffic
from oncelog_server.replication_throttles import ReplicationThrottles
from oncelog_server.settings.listeners import inter_broker_listener
from oncelog_server.slices import Slices
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.timers import Timers
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.broker import ReplicationView

if TYPE_CHECKING:
    from oncelog_server.links.link_security import LinkSecurity


class Spawn(Protocol):
    def __call__(self, work: Coroutine[Any, Any, None], /) -> Deferred[None]: ...


class BrokerParts(msgspec.Struct, frozen=True):
    """The parts of the broker that replication uses. `checkpoint` writes the checkpoints of all
    logs."""

    settings: Settings
    metadata: ClusterMetadata
    partitions: Partitions
    files: Files
    clock: Clock
    timers: Timers
    slices: Slices
    spawn: Spawn
    link_security: Callable[[], LinkSecurity] | None
    checkpoint: Callable[[], Deferred[StorageError | None]]


class Replication:
    """Follows and serves the replicas of other brokers."""

    def __init__(self, parts: BrokerParts) -> None:
        self._metadata = parts.metadata
        self._broker_id = parts.settings.node_id
        self._settings = parts.settings
        self.throttles = ReplicationThrottles(
            parts.settings, parts.clock.monotonic_ms, parts.metadata.image
        )
        self.follower_waits = FollowerWaits(parts.clock.monotonic_ms)
        self.traffic = ReplicationTraffic(self._broker_id, self._is_added)
        self.fetchers = ReplicaFetchers(self._fetcher_parts(parts))
        self._isr_duty = IsrDuty(
            parts.partitions,
            IsrWriter(self._write_isr, parts.spawn, parts.timers),
            lambda: parts.metadata.image,
            parts.timers,
            parts.slices,
            monotonic_ms=parts.clock.monotonic_ms,
            max_lag_ms=parts.settings.replica_lag_time_max_ms,
        )
        self._isr_duty.start()

    def _fetcher_parts(self, parts: BrokerParts) -> FetcherParts:
        settings = parts.settings
        links = BrokerLinks(
            lambda: parts.metadata.image,
            inter_broker_listener(settings),
            fetcher_client_id(settings.node_id),
            parts.link_security,
            settings.replica_socket_timeout_ms / 1000,
        )
        return FetcherParts(
            settings.node_id,
            self._broker_epoch,
            FetchSettings(
                settings.replica_fetch_wait_max_ms,
                settings.replica_fetch_min_bytes,
                settings.replica_fetch_response_max_bytes,
                settings.replica_fetch_max_bytes,
                settings.replica_fetch_backoff_ms,
            ),
            links,
            parts.timers,
            parts.slices,
            parts.clock.now_ms,
            parts.clock.monotonic_ms,
            parts.checkpoint,
            parts.files if settings.oncelog_flush_on_ack else None,
            self.throttles.follower,
            self.traffic,
        )

    def _is_added(self, name: TopicPartition, broker_id: int) -> bool:
        """Return True if a reassignment adds the replica of the broker to a partition."""
        partition = self._metadata.image.partition(*name)
        return partition is not None and broker_id in partition.adding

    def _broker_epoch(self) -> int:
        """Return the epoch of this broker's registration, 0 while it is not registered."""
        return self._metadata.membership.epoch_in(self._metadata.image)

    def _write_isr(self, proposals: Sequence[IsrProposal]) -> Coroutine[Any, Any, list[IsrOutcome]]:
        metadata = self._metadata
        leader = Leader(self._broker_id, self._broker_epoch())
        rules = ElectionRules.of(self._settings)
        return write_isr(metadata.store, lambda: metadata.image, rules, leader, proposals)

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its leader."""
        self.fetchers.follow(partition)

    def stop_following(self, name: TopicPartition) -> None:
        self.fetchers.forget(name)

    def joins(self, partition: Partition) -> None:
        """Note the fetch of a follower outside of the ISR."""
        self._isr_duty.updates.fetched(partition)

    def changed(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        """Note a change of the metadata."""
        self._isr_duty.follow(old, new, delta)
        self.throttles.follow(old, new, delta)
        if any(self._begins_to_lead(change) for change in delta.partitions):
            self.follower_waits.shorten()

    def _begins_to_lead(self, change: PartitionChange) -> bool:
        new, old = change.new, change.old
        leads = new is not None and new.leader == self._broker_id
        return leads and (old is None or old.leader != self._broker_id)

    def view(self) -> ReplicationView:
        """Return the read model."""
        updates = self._isr_duty.updates
        return ReplicationView(
            max(self.fetchers.max_lag, 0),
            self.traffic.bytes_in,
            self.traffic.bytes_out,
            self.traffic.reassigned_in,
            self.traffic.reassigned_out,
            updates.shrinks,
            updates.expansions,
            updates.failures,
        )

    def stop(self) -> None:
        self._isr_duty.stop()
        self.fetchers.stop()
