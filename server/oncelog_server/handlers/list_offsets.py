"""ListOffsets v1-11: the offset for a timestamp, or for the beginning or the end.

v2 isolation level: the end of a read_committed reader is the last stable offset. v4 leader epochs
(KIP-320). v6 flexible. v7 timestamp -3: the record with the highest timestamp (KIP-734). v8
timestamp -4: the beginning on local disk (KIP-405). v9 timestamp -5: the end in tiered storage. v10
time-out. v11 timestamp -6: the beginning of what tiered storage does not have yet.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from oncelog_server.log.errors import CorruptLog
from oncelog_server.network.request_context import RequestContext
from oncelog_server.node import Node
from oncelog_server.partition.partition import Isolation, Partition
from oncelog_server.refusal import Refused
from oncelog_server.security.authorizer import Operation, Resource, ResourceType
from oncelog_server.slices import Steps, when_large
from oncelog_server.storage.files import StorageError

API = ApiKey.LIST_OFFSETS
VERSIONS = range(1, 12)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
# The first version that knows each special timestamp.
SPECIAL_SINCE: Final[dict[int, int]] = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


def handle(
    node: Node, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Steps[ListOffsetsResponse]:
    size = sum(len(topic.partitions) for topic in request.topics)
    return when_large(size, _steps(node, context, request))


def _steps(
    node: Node, context: RequestContext, request: ListOffsetsRequest
) -> Steps[ListOffsetsResponse]:
    isolation = (
        Isolation.READ_COMMITTED if request.isolation_level == 1 else Isolation.READ_UNCOMMITTED
    )
    times = Counter(
        (topic.name, one.partition_index) for topic in request.topics for one in topic.partitions
    )
    topics = []
    for topic in request.topics:
        resource = Resource(ResourceType.TOPIC, topic.name)
        allowed = node.authorizer.authorise(context.principal, Operation.DESCRIBE, resource)
        answers = []
        for wanted in topic.partitions:
            try:
                if not allowed:
                    raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if times[topic.name, wanted.partition_index] > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST)
                _check_timestamp(context.api_version, wanted.timestamp)
                partition = node.partitions.require(topic.name, wanted.partition_index)
                partition.check_leader(wanted.current_leader_epoch)
                answers.append(_look_up(partition, wanted, isolation))
            except Refused as refused:
                answers.append(_nothing(wanted, refused.code))
            except (StorageError, CorruptLog):
                answers.append(_nothing(wanted, ErrorCode.KAFKA_STORAGE_ERROR))
            yield
        topics.append(ListOffsetsTopicResponse(topic.name, answers))
    return ListOffsetsResponse(topics=topics)


def _check_timestamp(version: int, timestamp: int) -> None:
    if timestamp < 0 and version < SPECIAL_SINCE.get(timestamp, 1 << 15):
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)


def _nothing(
    wanted: ListOffsetsPartition, code: ErrorCode = ErrorCode.NONE
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(wanted.partition_index, code, -1, -1, -1)


def _look_up(
    partition: Partition, wanted: ListOffsetsPartition, isolation: Isolation
) -> ListOffsetsPartitionResponse:
    log, timestamp = partition.log, wanted.timestamp
    end = partition.end_offset(isolation)
    index = wanted.partition_index
    if timestamp == LATEST:
        return ListOffsetsPartitionResponse(index, 0, -1, end, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        epoch = log.leader_epochs.epoch_at(start)
        return ListOffsetsPartitionResponse(index, 0, -1, start, epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _nothing(wanted)  # There is no tiered storage.
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp_offset()
    else:
        found = log.offset_for_timestamp(timestamp, end)
    if found is None or found.offset >= end:
        return _nothing(wanted)
    return ListOffsetsPartitionResponse(index, 0, found.timestamp, found.offset, found.leader_epoch)
