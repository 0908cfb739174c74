"""Which topics of an OffsetCommit or TxnOffsetCommit may be committed at all, and the answer put
together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import copy
from typing import TypeVar

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequestTopic,
    OffsetCommitResponseTopic,
)
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponseTopic,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topic_names import SINKS
from oncelog_server.deferred import Deferred
from oncelog_server.network.request_context import RequestContext
from oncelog_server.refusal import Refused
from oncelog_server.security.authorizer import Operation, Resource, ResourceType
from oncelog_server.slices import Steps
from oncelog_server.topic_partition import TopicPartition

# The topics of both APIs have the same fields.
T = TypeVar("T", OffsetCommitRequestTopic, TxnOffsetCommitRequestTopic)
Answered = OffsetCommitResponseTopic | TxnOffsetCommitResponseTopic
Codes = dict[TopicPartition, ErrorCode]


def created_first(
    services: BrokerServices, context: RequestContext, topics: Iterable[T]
) -> Deferred[None] | None:
    """`__oncelog_sink` is created when the first sink commits; once it has been tried."""
    if (
        SINKS in services.metadata.image.topics
        or all(topic.name != SINKS for topic in topics)
        or not _may_read(services, context, SINKS)
    ):
        return None
    return services.spawn(_create_sinks(services))


async def _create_sinks(services: BrokerServices) -> None:
    with suppress(Refused):
        # Where that fails the commit is answered with UNKNOWN_TOPIC_OR_PARTITION.
        await services.metadata.create_missing_topic(SINKS)


def size_of(topics: Iterable[T]) -> int:
    """How much there is to be looked at."""
    return sum(1 + len(topic.partitions) for topic in topics)


def refuse_unknown(
    services: BrokerServices, context: RequestContext, topics: Iterable[T], *, by_id: bool
) -> Steps[tuple[list[T], Codes]]:
    """The topics with what may be committed of them, and the code of everything else. Topics that
    came by id get their names; one whose id is not known keeps an empty name, and its code is under
    that."""
    image = services.metadata.image
    accepted: list[T] = []
    refused: Codes = {}
    for topic in topics:
        if by_id:
            topic.name = image.topic_name(topic.topic_id) or ""
        code = ErrorCode.NONE
        if by_id and not topic.name:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif not _may_read(services, context, topic.name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        known = []
        for partition in topic.partitions:
            index = partition.partition_index
            if code is not ErrorCode.NONE:
                refused[_key(topic, index)] = code
            elif image.partition(topic.name, index) is None:
                refused[_key(topic, index)] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                known.append(partition)
        yield
        if known:
            kept = copy(topic)
            kept.partitions = known
            accepted.append(kept)
    return accepted, refused


def _may_read(services: BrokerServices, context: RequestContext, topic: str) -> bool:
    resource = Resource(ResourceType.TOPIC, topic)
    return services.authorizer.authorize(context.principal, Operation.READ, resource)


def answered(topics: Sequence[Answered]) -> Codes:
    """The codes of an answer of the core."""
    return {
        TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in topics
        for partition in topic.partitions
    }


def all_with(topics: Iterable[T], code: ErrorCode) -> Codes:
    """The same code for everything."""
    return {
        _key(topic, partition.partition_index): code
        for topic in topics
        for partition in topic.partitions
    }


def codes_of(topic: T, codes: Codes) -> list[tuple[int, ErrorCode]]:
    """(partition, code) of one topic of the request, in its order."""
    return [
        (partition.partition_index, codes[_key(topic, partition.partition_index)])
        for partition in topic.partitions
    ]


def _key(topic: T, index: int) -> TopicPartition:
    return TopicPartition(topic.name or topic.topic_id.hex(), index)
