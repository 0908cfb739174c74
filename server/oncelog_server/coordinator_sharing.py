"""Connects the coordinators of this broker with those of other brokers (KIP-447, early draft). A
single broker imports none of this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.transaction.remote.calls import ShardLeader
from oncelog_server.transaction.remote.other_coordinators import OtherCoordinators

if TYPE_CHECKING:
    from oncelog_server.clock import Clock
    from oncelog_server.coordinator.runtime import Work
    from oncelog_server.group.coordinator import GroupCoordinator
    from oncelog_server.links.other_brokers import OtherBrokers
    from oncelog_server.metadata.cluster_metadata import ClusterMetadata
    from oncelog_server.topic_partition import TopicPartition
    from oncelog_server.transaction.coordinator import TransactionCoordinator


def other_coordinators(
    broker_id: int,
    metadata: ClusterMetadata,
    transactions: TransactionCoordinator,
    groups: GroupCoordinator,
    other_brokers: OtherBrokers,
    clock: Clock,
    work: Work,
) -> OtherCoordinators:
    """Return the coordinators of the other brokers, which follow the metadata. This broker's own
    coordinators then let them coordinate some of the groups. `work` runs long work in slices."""

    def leader_of(name: TopicPartition) -> ShardLeader | None:
        found = metadata.image.partition(*name)
        return None if found is None else ShardLeader(found.leader, found.leader_epoch)

    def shard_count() -> int:
        found = metadata.image.topics.get(TRANSACTION_STATE)
        return 0 if found is None else len(found.partitions)

    return OtherCoordinators(
        broker_id,
        transactions,
        groups,
        leader_of=leader_of,
        send=other_brokers.calls.send,
        shard_count=shard_count,
        work=work,
        wall_ms=clock.now_ms,
        monotonic_ms=clock.monotonic_ms,
        before_serving=lambda: other_brokers.check_authority(),
    )
