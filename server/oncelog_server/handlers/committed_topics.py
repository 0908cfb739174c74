"""Check the topics of an OffsetCommit or TxnOffsetCommit, and build the response."""

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
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.slices import Steps
from oncelog_server.topic_partition import TopicPartition

# The topics of both APIs have the same fields.
T = TypeVar("T", OffsetCommitRequestTopic, TxnOffsetCommitRequestTopic)
Answered = OffsetCommitResponseTopic | TxnOffsetCommitResponseTopic
Codes = dict[TopicPartition, ErrorCode]


def created_first(
    services: BrokerServices, context: RequestContext, topics: Iterable[T]
) -> Deferred[None] | None:
    """Create `__oncelog_sink` if a sink commits for the first time. Return a Deferred that
    completes after the attempt; None if there is nothing to create."""
    if (
        SINKS in services.metadata.image.topics
        or all(topic.name != SINKS for topic in topics)
        or not context.may(Operation.READ, topic=SINKS, logged=False)
    ):
        return None
    return services.spawn(_create_sinks(services))


async def _create_sinks(services: BrokerServices) -> None:
    with suppress(Refused):
        # If the creation fails, the response to the commit is UNKNOWN_TOPIC_OR_PARTITION.
        await services.metadata.missing_topics.create_one(SINKS)


def size_of(topics: Iterable[T]) -> int:
    """Return the number of topics and partitions."""
    return sum(1 + len(topic.partitions) for topic in topics)


def refuse_unknown(
    services: BrokerServices, context: RequestContext, topics: Iterable[T], *, by_id: bool
) -> Steps[tuple[list[T], Codes]]:
    """Return the topics with the partitions that may be committed, and the codes of the other
    partitions. Topics that are given by id get their names; a topic with an unknown id keeps an
    empty name, and its codes are under its id."""
    image = services.metadata.image
    accepted: list[T] = []
    refused: Codes = {}
    for topic in topics:
        if by_id:
            topic.name = image.topic_name(topic.topic_id) or ""
        code = ErrorCode.NONE
        if by_id and not topic.name:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif not context.may(Operation.READ, topic=topic.name):
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


def answered(topics: Sequence[Answered]) -> Codes:
    """Return the codes of a response of the coordinator."""
    return {
        TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in topics
        for partition in topic.partitions
    }


def all_with(topics: Iterable[T], code: ErrorCode) -> Codes:
    """Return the same code for all partitions."""
    return {
        _key(topic, partition.partition_index): code
        for topic in topics
        for partition in topic.partitions
    }


def codes_of(topic: T, codes: Codes) -> list[tuple[int, ErrorCode]]:
    """Return (partition, code) for each partition of a topic, in the order of the request."""
    return [
        (partition.partition_index, codes[_key(topic, partition.partition_index)])
        for partition in topic.partitions
    ]


def _key(topic: T, index: int) -> TopicPartition:
    return TopicPartition(topic.name or topic.topic_id.hex(), index)
