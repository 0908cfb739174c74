"""OffsetDelete v0: delete a group's offsets of some partitions (KIP-496)."""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, then
from oncelog_server.handlers.group_caller import caller
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation

API = ApiKey.OFFSET_DELETE


def handle(
    services: BrokerServices, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Deferred[OffsetDeleteResponse]:
    try:
        context.require(Operation.DELETE, group=request.group_id)
        wanted, refused = _accepted(services, context, request)
        answer = services.groups.run(
            request.group_id, lambda shard: shard.offset_delete(wanted, caller(services, context))
        )
    except Refused as error:
        return OffsetDeleteResponse(error_code=error.code)
    return then(answer, lambda found: _with_refused(found, refused))


def _accepted(
    services: BrokerServices, context: RequestContext, request: OffsetDeleteRequest
) -> tuple[OffsetDeleteRequest, list[OffsetDeleteResponseTopic]]:
    """Return the request with the partitions that may lose their offsets, and the results of
    partitions that are not authorized or unknown."""
    image = services.metadata.image
    wanted: list[OffsetDeleteRequestTopic] = []
    refused: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        allowed = context.may(Operation.READ, topic=topic.name)
        known, rows = [], []
        for partition in topic.partitions:
            index = partition.partition_index
            if not allowed:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                rows.append(OffsetDeleteResponsePartition(index, code))
            elif image.partition(topic.name, index) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                rows.append(OffsetDeleteResponsePartition(index, code))
            else:
                known.append(partition)
        if known:
            wanted.append(OffsetDeleteRequestTopic(topic.name, known))
        if rows:
            refused.append(OffsetDeleteResponseTopic(topic.name, rows))
    return OffsetDeleteRequest(request.group_id, wanted), refused


def _with_refused(
    found: OffsetDeleteResponse, refused: list[OffsetDeleteResponseTopic]
) -> OffsetDeleteResponse:
    """Return the response with the refused partitions added, unless it has an error for the whole
    group. A topic has a single result."""
    if found.error_code != ErrorCode.NONE:
        return found
    results = {topic.name: topic for topic in found.topics}
    for topic in refused:
        if topic.name in results:
            results[topic.name].partitions += topic.partitions
        else:
            results[topic.name] = topic
    found.topics = list(results.values())
    return found
