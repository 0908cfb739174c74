"""The brokers and partitions of a cluster at one moment, for the verbs of `oncelog cluster`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from oncelog_client.core.replica_layout import Move
from oncelog_client.errors import KafkaError
from oncelog_client.values import Node, PartitionInfo, TopicPartition
from oncelog_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from oncelog_client.admin import Admin, PartitionReassignment, ReplicaInfo

# Maximum number of attempts to describe topics, until all brokers see the same topics, and the
# pause between two attempts.
ATTEMPTS: Final = 10
PAUSE_S: Final = 0.1
# Number of topics in one request.
AT_ONCE: Final = 500


class ClusterState(NamedTuple):
    """`fenced` are the brokers that have registered and are not alive. `moving` are the partitions
    with a reassignment in progress."""

    alive: dict[int, Node]
    fenced: dict[int, Node]
    partitions: dict[TopicPartition, PartitionInfo]
    moving: dict[TopicPartition, PartitionReassignment]

    @property
    def racks(self) -> dict[int, str | None]:
        """Return the racks of all registered brokers."""
        return {broker: node.rack for broker, node in (self.alive | self.fenced).items()}

    @property
    def replica_brokers(self) -> set[int]:
        """Return the brokers with replicas. A broker that was unregistered may have some."""
        return {broker for info in self.partitions.values() for broker in info.replicas}

    def planned_replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the replicas of each partition after the moves in progress."""
        return {place: self._planned(place, info) for place, info in self.partitions.items()}

    def moves_in_progress(self) -> list[Move]:
        """Return the moves that have begun and not ended."""
        planned = self.planned_replicas()
        return [
            Move(
                place,
                tuple(broker for broker in moving.replicas if broker not in moving.adding_replicas),
                planned[place],
            )
            for place, moving in self.moving.items()
            if place in planned
        ]

    def _planned(self, place: TopicPartition, info: PartitionInfo) -> tuple[int, ...]:
        move = self.moving.get(place)
        if move is None:
            return info.replicas
        return tuple(broker for broker in move.replicas if broker not in move.removing_replicas)

    def stopped_text(self) -> str:
        """Return a sentence about the fenced brokers, or an empty text if there are none."""
        if not self.fenced:
            return ""
        names = ", ".join(map(str, sorted(self.fenced)))
        keeps = "It keeps its replicas, and gets none"
        if len(self.fenced) > 1:
            keeps = "They keep their replicas, and get none"
        return f"not alive: broker {names}. {keeps}"


async def cluster_state(admin: Admin) -> ClusterState:
    """Return the present state. Raises KafkaError."""
    described, topics, moving = await asyncio.gather(
        admin.describe_cluster(include_fenced_brokers=True),
        admin.list_topics(list_internal=True),
        admin.list_partition_reassignments(),
    )
    return ClusterState(
        {node.node_id: node for node in described.nodes},
        {node.node_id: node for node in described.fenced},
        await partitions_of(admin, topics),
        moving,
    )


async def sees_all_topics(admin: Admin) -> bool:
    """Return True if the list of topics is surely complete: the cluster has no authorizer, or the
    user may see all access rules, and describe a topic of any name. Raises KafkaError."""
    from oncelog_client.core.acl_bindings import AclBindingFilter, AclResourceType
    from oncelog_client.core.topic_probes import topic_probes

    try:
        rules = await admin.describe_acls(AclBindingFilter(AclResourceType.TOPIC))
    except KafkaError as error:
        if error.code is ErrorCode.SECURITY_DISABLED:
            return True
        if error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return False
    names = topic_probes(rules)
    if names is None:
        return False
    for start in range(0, len(names), AT_ONCE):
        if await admin.hidden_topics(names[start : start + AT_ONCE]):
            return False
    return True


async def partitions_of(admin: Admin, topics: Iterable[str]) -> dict[TopicPartition, PartitionInfo]:
    """Return the partitions of these topics. Topics that are deleted meanwhile are left out. So are
    new topics that the broker does not see yet, because brokers see a new topic at different times.
    Raises KafkaError."""
    wanted = set(topics)
    for attempt in range(ATTEMPTS):
        try:
            described = await admin.describe_topics(sorted(wanted)) if wanted else {}
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or attempt == ATTEMPTS - 1:
                raise
            await asyncio.sleep(PAUSE_S)
            wanted &= (await admin.list_topics(list_internal=True)).keys()
        else:
            break
    return {
        TopicPartition(info.topic, info.partition): info
        for topic in described.values()
        for info in topic.partitions
    }


async def replicas_on(
    admin: Admin, brokers: Iterable[int]
) -> dict[tuple[int, TopicPartition], ReplicaInfo]:
    """Return the replicas on disk by broker and partition. Brokers that do not respond are left
    out."""

    async def of_broker(broker: int) -> list[tuple[int, TopicPartition, ReplicaInfo]]:
        try:
            directories = (await admin.describe_log_dirs([broker]))[broker]
        except KafkaError:
            return []
        return [
            (broker, place, replica)
            for directory in directories
            for place, replica in directory.replicas.items()
        ]

    found = await asyncio.gather(*map(of_broker, brokers))
    return {(broker, place): replica for rows in found for broker, place, replica in rows}


async def sizes_of_partitions(admin: Admin, brokers: Iterable[int]) -> dict[TopicPartition, int]:
    """Return the bytes of the largest replica of each partition on these brokers."""
    sizes: dict[TopicPartition, int] = {}
    for (_, place), replica in (await replicas_on(admin, brokers)).items():
        sizes[place] = max(sizes.get(place, 0), replica.size_bytes)
    return sizes
