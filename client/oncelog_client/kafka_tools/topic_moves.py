"""Partitions that move to other brokers, as kafka-topics.sh shows them (KIP-455)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from oncelog_client.kafka_tools.connecting import Connection
from oncelog_client.kafka_tools.failures import ERRORS_PACKAGE, JavaError, check
from oncelog_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from oncelog_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
)

# The partitions of a topic that move, by number.
Moves: TypeAlias = dict[int, OngoingPartitionReassignment]

# With these errors Kafka's tool shows no moves.
_IGNORED: Final = {
    f"{ERRORS_PACKAGE}.{name}"
    for name in ("UnsupportedVersionException", "ClusterAuthorizationException")
}


async def list_moves(
    connection: Connection, topics: Iterable[DescribeTopicPartitionsResponseTopic]
) -> dict[str, Moves]:
    """Return the moves in progress by topic. Raises JavaError."""
    request = ListPartitionReassignmentsRequest(
        topics=[
            ListPartitionReassignmentsTopics(
                topic.name or "", [partition.partition_index for partition in topic.partitions]
            )
            for topic in topics
        ]
    )
    try:
        response = await connection.call_controller(request, ListPartitionReassignmentsResponse)
        check(response.error_code, response.error_message)
    except JavaError as error:
        if error.java_class in _IGNORED:
            return {}
        raise
    return {
        topic.name: {move.partition_index: move for move in topic.partitions}
        for topic in response.topics
    }


def replication_factor(partition: DescribeTopicPartitionsResponsePartition, moves: Moves) -> int:
    """Return the number of replicas, without those that a move adds. A move may end between the
    requests for moves and for partitions. So a move counts only if a replica that it adds or
    removes is among the partition's replicas."""
    move = moves.get(partition.partition_index)
    replicas = partition.replica_nodes
    if move is None or not {*move.adding_replicas, *move.removing_replicas} & {*replicas}:
        return len(replicas)
    return len(move.replicas) - len(move.adding_replicas)
