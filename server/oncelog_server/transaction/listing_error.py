"""Error code for ListTransactions while some shard is unavailable. Without the error, tools would
report the open transactions of a missing id as hanging (KIP-664)."""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.image import NO_LEADER, ClusterImage
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.coordinator.runtime import ShardRuntime
from oncelog_server.partition.registry import Partitions
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.shard import TransactionShard


def listing_error(
    image: ClusterImage,
    broker_id: int,
    partitions: Partitions,
    runtime: ShardRuntime[TransactionShard],
) -> ErrorCode:
    """Return the error for the partitions of `__transaction_state` that this broker leads, or that
    have no leader. The error is COORDINATOR_NOT_AVAILABLE if such a partition is offline, or if the
    load of its shard has failed (scenarios S3, S14). The error is COORDINATOR_LOAD_IN_PROGRESS if
    such a partition is still to be opened, or its shard is being loaded. Otherwise return NONE.
    Other brokers list the ids of the partitions that they lead."""
    topic = image.topics.get(TRANSACTION_STATE)
    code = ErrorCode.NONE
    for partition in () if topic is None else topic.partitions:
        if partition.leader not in (broker_id, NO_LEADER) or runtime.is_loaded(partition.partition):
            continue
        place = TopicPartition(TRANSACTION_STATE, partition.partition)
        is_loading = partition.partition in runtime.loading
        is_open = partitions.get(place) is not None
        if (is_open and not is_loading) or partitions.offline_reason(place) is not None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return code
