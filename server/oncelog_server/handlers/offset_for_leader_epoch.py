"""OffsetForLeaderEpoch v2-4: the end offset of a leader epoch (KIP-101, KIP-320).

v2 the reader's current leader epoch. v3 replica id. v4 flexible.
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import Steps, when_large

API = ApiKey.OFFSET_FOR_LEADER_EPOCH


def handle(
    services: BrokerServices, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse | Steps[OffsetForLeaderEpochResponse]:
    size = sum(1 + len(topic.partitions) for topic in request.topics)
    return when_large(size, _steps(services, context, request))


def _steps(
    services: BrokerServices, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Steps[OffsetForLeaderEpochResponse]:
    topics = []
    for topic in request.topics:
        found = []
        for partition in topic.partitions:
            found.append(_partition(services, context, topic.topic, partition))
            yield
        topics.append(OffsetForLeaderTopicResult(topic.topic, found))
        yield
    return OffsetForLeaderEpochResponse(topics=topics)


def _partition(
    services: BrokerServices, context: RequestContext, topic: str, wanted: OffsetForLeaderPartition
) -> EpochEndOffset:
    try:
        # Allowed for followers, and for clients that may describe the topic.
        if not (
            context.may(Operation.CLUSTER_ACTION, CLUSTER, logged=False)
            or context.may(Operation.DESCRIBE, topic=topic)
        ):
            raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = services.partitions.require(topic, wanted.partition)
        partition.check_leader(wanted.current_leader_epoch)
    except Refused as refused:
        return EpochEndOffset(refused.code, wanted.partition, -1, -1)
    found = partition.end_offset_for_epoch(wanted.leader_epoch)
    epoch, end_offset = found if found is not None else (-1, -1)
    return EpochEndOffset(ErrorCode.NONE, wanted.partition, epoch, end_offset)
