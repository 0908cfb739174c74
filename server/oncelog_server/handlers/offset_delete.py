"""OffsetDelete v0: delete a group's offsets of some partitions (KIP-496)."""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
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
        refused = _refused(services, context, request)
        wanted = OffsetDeleteRequest(
            request.group_id, [topic for topic in request.topics if topic.name not in refused]
        )
        answer = services.groups.run(
            request.group_id, lambda shard: shard.offset_delete(wanted, caller(services, context))
        )
    except Refused as error:
        return OffsetDeleteResponse(error_code=error.code)
    return then(answer, lambda found: _with_refused(found, request, refused))


def _refused(
    services: BrokerServices, context: RequestContext, request: OffsetDeleteRequest
) -> dict[str, ErrorCode]:
    """Return the codes of topics that are not authorized or unknown."""
    refused: dict[str, ErrorCode] = {}
    for topic in request.topics:
        if not context.may(Operation.READ, topic=topic.name):
            refused[topic.name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic.name not in services.metadata.image.topics:
            refused[topic.name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _with_refused(
    found: OffsetDeleteResponse, request: OffsetDeleteRequest, refused: dict[str, ErrorCode]
) -> OffsetDeleteResponse:
    """Return the response with the refused topics added, unless it has an error for the whole
    group."""
    if found.error_code != ErrorCode.NONE:
        return found
    found.topics += [
        OffsetDeleteResponseTopic(
            topic.name,
            [
                OffsetDeleteResponsePartition(partition.partition_index, refused[topic.name])
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
        if topic.name in refused
    ]
    return found
