"""Whether a broker can tell of every transactional id that it coordinates: one that it keeps quiet
about would be taken for an id that nobody coordinates, and its transaction for one that hangs
(KIP-664)."""

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
    """COORDINATOR_NOT_AVAILABLE while a partition of `__transaction_state` that this broker leads,
    or that nobody leads, is offline or could not be loaded (S3, S14). COORDINATOR_LOAD_IN_PROGRESS
    while one is still to be opened. NONE where nothing is missing; what other brokers lead, they
    tell of."""
    topic = image.topics.get(TRANSACTION_STATE)
    code = ErrorCode.NONE
    for one in () if topic is None else topic.partitions:
        if one.leader not in (broker_id, NO_LEADER) or runtime.is_loaded(one.partition):
            continue
        place = TopicPartition(TRANSACTION_STATE, one.partition)
        if partitions.get(place) is not None or partitions.offline_reason(place) is not None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return code
