"""The services that handlers use. `broker` builds them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from oncelog_protocol.features import GROUP_TRANSACTIONS
from oncelog_server.cluster.producer_id_owners import ProducerIdOwners
from oncelog_server.deferred import Deferred
from oncelog_server.producing.adding_retry import NEVER, AddingRetry
from oncelog_server.security.audit_trail import AuditTrail
from oncelog_server.transaction.producer_id_quota import ProducerIdQuota
from oncelog_server.views.broker import ReplicationView

if TYPE_CHECKING:
    from oncelog_server.broker_views import BrokerViews
    from oncelog_server.clock import Clock
    from oncelog_server.config import Settings
    from oncelog_server.fetching.follower_waits import FollowerWaits
    from oncelog_server.fetching.sessions import FetchSessions
    from oncelog_server.group.coordinator import GroupCoordinator
    from oncelog_server.metadata.cluster_metadata import ClusterMetadata
    from oncelog_server.partition.partition import Partition
    from oncelog_server.partition.registry import Partitions
    from oncelog_server.quotas.gate import QuotaGate
    from oncelog_server.quotas.replication import ReplicationQuota
    from oncelog_server.replica.traffic import ReplicationTraffic
    from oncelog_server.security.authorizer import Authorizer
    from oncelog_server.slices import Slices
    from oncelog_server.storage.files import StorageError
    from oncelog_server.timers import Timers
    from oncelog_server.topic_partition import TopicPartition
    from oncelog_server.transaction.commands.add_partitions import AddPartitions
    from oncelog_server.transaction.coordinator import TransactionCoordinator
    from oncelog_server.transaction.marker_delivery import LocalMarkers
    from oncelog_server.transaction.producer_ids import ProducerIds
    from oncelog_server.transaction.remote.other_coordinators import OtherCoordinators
    from oncelog_server.transaction.results import TransactionResult

T = TypeVar("T")


class Spawn(Protocol):
    def __call__(self, work: Coroutine[Any, Any, T], /) -> Deferred[T]: ...


# Nothing compares or prints services. Methods for that would take 1 ms of each start.
@dataclass(slots=True, eq=False, repr=False)
class BrokerServices:
    """The services that handlers use.

    `spawn` runs a coroutine and returns the Deferred of its result; it is for admin requests, which
    wait for the metadata store.
    """

    broker_id: int
    cluster_id: str
    settings: Settings
    clock: Clock
    timers: Timers
    authorizer: Authorizer
    metadata: ClusterMetadata
    partitions: Partitions
    views: BrokerViews
    transactions: TransactionCoordinator
    # Adds partitions to transactions for Produce and TxnOffsetCommit. The coordinator of the
    # transaction may be another broker.
    partition_adding: Callable[[AddPartitions], TransactionResult | Deferred[TransactionResult]]
    groups: GroupCoordinator
    fetch_sessions: FetchSessions
    local_markers: LocalMarkers
    producer_ids: ProducerIds
    spawn: Spawn
    # Writes the checkpoints, with the log start offsets. The Deferred completes when they are
    # durable.
    checkpoint: Callable[[], Deferred[StorageError | None]]
    # Runs long work in slices, so that it does not block the loop.
    slices: Slices
    # The quotas of clients. They follow the metadata.
    quotas: QuotaGate
    # The attempts of Produce to add a partition to a transaction.
    adding_retry: AddingRetry = NEVER
    # The coordinators of other brokers, None with a single broker.
    other_coordinators: OtherCoordinators | None = None
    # Called after the fetch of a follower outside of the ISR. None if there is no such follower.
    follower_joins: Callable[[Partition], None] | None = None
    # The throttle of what this broker sends to followers. None if there is no follower.
    leader_throttle: ReplicationQuota | None = None
    # Counts what this broker sends to followers. None if there is no follower.
    replication_traffic: ReplicationTraffic | None = None
    # Returns the lag of this broker's replica in committed records: 0 for a leader, -1 if the lag
    # is unknown.
    follower_lag: Callable[[TopicPartition], int] = lambda name: 0
    # The parked fetches of followers. None if there is no follower.
    follower_waits: FollowerWaits | None = None
    # Returns the read model of the replication.
    replication: Callable[[], ReplicationView] = ReplicationView
    # Logs the changes that security depends on.
    audit_trail: AuditTrail = field(default_factory=AuditTrail)
    producer_id_quota: ProducerIdQuota = field(default_factory=ProducerIdQuota)
    # The principals of producer ids. They follow the metadata.
    producer_id_owners: ProducerIdOwners = field(default_factory=ProducerIdOwners)
    # The versions of each API. The dispatch sets them from the handlers.
    versions: dict[int, range] = field(default_factory=dict)

    @property
    def has_group_transactions(self) -> bool:
        """Return True if this cluster serves the transactions of groups (KIP-447, early draft).
        If several brokers coordinate these transactions together, each broker must support the
        feature."""
        if not self.settings.group_transactions_enable:
            return False
        if self.other_coordinators is None:
            return True
        brokers = self.metadata.image.brokers.values()
        return all(GROUP_TRANSACTIONS in broker.features for broker in brokers)
