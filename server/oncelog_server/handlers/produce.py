"""Produce v3-13: one record batch for each partition.

v3 transactional id (KIP-98). v5 log start offset in the answer. v8 record errors. v9 flexible. v10
the new leader in the answer. v11 TRANSACTION_ABORTABLE. v12 adds its partitions to the transaction
(KIP-890). v13 topic ids (KIP-516). Versions 0-2 are advertised, because librdkafka looks for them,
and close the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from oncelog_server.cluster.topic_names import INTERNAL_TOPICS
from oncelog_server.coordination.error_versions import code_for_version
from oncelog_server.deferred import Deferred, gather, then, then_ask
from oncelog_server.handlers.current_leaders import CurrentLeaders
from oncelog_server.log.validation import MAX_RECORD_ERRORS
from oncelog_server.network.request_context import RequestContext
from oncelog_server.node import Node
from oncelog_server.producing.produce import NONE, PartitionAppend, Produce
from oncelog_server.refusal import Refused
from oncelog_server.security.authorizer import Operation, Resource, ResourceType
from oncelog_server.slices import SMALL, Steps

API = ApiKey.PRODUCE
VERSIONS = range(3, 14)

ADDS_PARTITIONS_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13
# Appends of a large request that are made before others have their turn: a millisecond.
PART: Final = 20
VALID_ACKS: Final = frozenset({-1, 0, 1})

# Errors of the log for which Kafka sends the log start offset along.
FROM_THE_LOG: Final = frozenset(
    {
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)

# One topic of the request, and its appends.
Topic = tuple[TopicProduceData, list[PartitionAppend]]


def handle(
    node: Node, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Deferred[ProduceResponse] | None:
    topics = [(topic, _appends(node, context, topic)) for topic in request.topic_data]
    appends = [one for _, of_topic in topics for one in of_topic]
    if request.acks not in VALID_ACKS:
        for one in appends:
            one.refuse(ErrorCode.INVALID_REQUIRED_ACKS)
    transactional = [one for one in appends if one.is_transactional]
    if transactional and request.transactional_id is not None:
        resource = Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        if not node.authorizer.authorise(context.principal, Operation.WRITE, resource):
            for one in appends:
                one.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    def part(some: list[PartitionAppend]) -> Produce:
        return Produce(
            some,
            [one for one in some if one.is_transactional],
            request.transactional_id,
            request.acks,
            context.api_version >= ADDS_PARTITIONS_SINCE,
            node.transactions.add_partitions,
            node.clock.now_ms(),
            request.transaction_group_id,
            node.settings.transaction_partition_verification_enable,
            context,
        )

    whole = part(appends)
    if len(appends) > SMALL and request.acks != 0 and whole.may_be_parted():
        later: Deferred[Any] | None = _in_parts(node, appends, part)
    else:
        later = whole.run()
    if request.acks == 0:
        _close_on_error(appends)
        return None
    if later is None:
        return _response(node, context, topics)
    return then(later, lambda _: _response(node, context, topics))


def _in_parts(
    node: Node, appends: list[PartitionAppend], part: Callable[[list[PartitionAppend]], Produce]
) -> Deferred[Any] | None:
    """As that many requests, one after the other, in slices; brought to its end also if the client
    goes away meanwhile."""
    for one in appends:
        if one.records is not None:  # the bytes are in the connection's read buffer
            one.records = bytearray(one.records)

    def steps() -> Steps[list[Deferred[None]]]:
        waits = []
        for start in range(0, len(appends), PART):
            later = part(appends[start : start + PART]).run()
            if later is not None:
                waits.append(later)
            yield
        return waits

    def all_of(waits: list[Deferred[None]]) -> list[None] | Deferred[list[None]]:
        return gather(waits)

    answer = then_ask(node.slices.run(steps()), all_of)
    return answer if isinstance(answer, Deferred) else None


def _appends(node: Node, context: RequestContext, topic: TopicProduceData) -> list[PartitionAppend]:
    try:
        name = _topic_name(node, context, topic)
    except Refused as refused:
        return [
            PartitionAppend(data.index, data.records, None, refused.code, refused.message or None)
            for data in topic.partition_data
        ]
    appends = []
    for data in topic.partition_data:
        one = PartitionAppend(data.index, data.records, None)
        try:
            one.partition = node.partitions.require(name, data.index)
        except Refused as refused:
            one.refuse(refused.code, refused.message)
        appends.append(one)
    return appends


def _topic_name(node: Node, context: RequestContext, topic: TopicProduceData) -> str:
    """Raises Refused. Internal topics are closed to clients, whatever they call themselves
    (H51)."""
    name: str | None = topic.name
    if context.api_version >= TOPIC_IDS_SINCE:
        name = node.metadata.image.topic_name(topic.topic_id)
        if name is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    assert name is not None
    resource = Resource(ResourceType.TOPIC, name)
    if not node.authorizer.authorise(context.principal, Operation.WRITE, resource):
        raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if name in INTERNAL_TOPICS:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is written by its coordinator")
    return name


def _close_on_error(appends: list[PartitionAppend]) -> None:
    """With acks=0 the only way to tell of an error is to close the connection, as Kafka does."""
    for one in appends:
        if one.code is not ErrorCode.NONE:
            raise ProtocolError(f"Produce with acks=0 failed: {one.code.name}")


def _response(node: Node, context: RequestContext, topics: list[Topic]) -> ProduceResponse:
    endpoints: list[NodeEndpoint] = []
    responses = []
    left = MAX_RECORD_ERRORS
    for topic, appends in topics:
        answers = []
        for one in appends:
            appended, partition = one.appended, one.partition
            if one.code is NONE and appended is not None and partition is not None:
                answer = PartitionProduceResponse(
                    one.index,
                    NONE,
                    appended.base_offset,
                    appended.log_append_time_ms,
                    partition.log.log_start_offset,
                )
            else:
                answer = _refused(node, context, one, endpoints)
                if len(one.record_errors) <= left:
                    left -= len(one.record_errors)
                    answer.record_errors = [
                        BatchIndexAndErrorMessage(error.index, error.message)
                        for error in one.record_errors
                    ]
            answers.append(answer)
        responses.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
    return ProduceResponse(responses, node_endpoints=endpoints)


def _refused(
    node: Node, context: RequestContext, one: PartitionAppend, endpoints: list[NodeEndpoint]
) -> PartitionProduceResponse:
    """Adds the new leader to `endpoints` where the partition has moved."""
    refused = PartitionProduceResponse(
        one.index,
        code_for_version(API, context.api_version, one.code),
        base_offset=-1,
        error_message=one.message,
    )
    if one.partition is not None and (one.record_errors or one.code in FROM_THE_LOG):
        refused.log_start_offset = one.partition.log.log_start_offset
    if one.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and one.partition is not None:
        leaders = CurrentLeaders(node, context.listener_name)
        refused.current_leader = LeaderIdAndEpoch(*leaders.of(*one.partition.topic_partition))
        known = {endpoint.node_id for endpoint in endpoints}
        endpoints += [
            NodeEndpoint(*found) for id_, found in leaders.endpoints.items() if id_ not in known
        ]
    return refused
