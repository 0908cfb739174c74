"""The state of a partition in metadata responses: its leader and its offline replicas."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.image import NO_LEADER, PartitionImage, TopicImage
from oncelog_server.topic_partition import TopicPartition


class PartitionState(msgspec.Struct, frozen=True):
    """One row. `leader` is -1, with LEADER_NOT_AVAILABLE, if no broker serves the partition."""

    code: ErrorCode
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: list[int]


def leader_of(services: BrokerServices, topic: str, partition: PartitionImage) -> int:
    """Return the broker that serves the partition; NO_LEADER if its leader is not alive, or is this
    broker and cannot use the log."""
    leader = partition.leader
    if leader not in services.metadata.image.brokers:
        return NO_LEADER
    if leader == services.broker_id:
        key = TopicPartition(topic, partition.partition)
        if services.partitions.offline_reason(key) is not None:
            return NO_LEADER
    return leader


def partition_states(
    services: BrokerServices, topic: TopicImage, first: int = 0
) -> Iterator[PartitionState]:
    """Yield the partitions from number `first` on. A replica is offline if its broker is not alive,
    or if it is on this broker and its log cannot be used."""
    brokers = services.metadata.image.brokers
    for partition in topic.partitions[first:]:
        offline = [broker for broker in partition.replicas if broker not in brokers]
        if services.broker_id in partition.replicas:
            key = TopicPartition(topic.name, partition.partition)
            if services.partitions.offline_reason(key) is not None:
                offline.append(services.broker_id)
        leader = leader_of(services, topic.name, partition)
        code = ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE
        yield PartitionState(
            code,
            partition.partition,
            leader,
            partition.leader_epoch,
            partition.replicas,
            partition.isr,
            offline,
        )
