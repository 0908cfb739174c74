"""CreatePartitions: more partitions for topics that exist (KIP-195).

v0, v1: counts, optionally with a manual assignment; with `validate_only`, they are only checked
v2: flexible
v3: THROTTLING_QUOTA_EXCEEDED (KIP-599)
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.partition_additions import NewPartitions
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation

API = ApiKey.CREATE_PARTITIONS

STRICT_SINCE: Final = 3


def handle(
    services: BrokerServices, context: RequestContext, request: CreatePartitionsRequest
) -> Deferred[CreatePartitionsResponse]:
    return services.spawn(_create(services, context, request))


async def _create(
    services: BrokerServices, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    times = Counter(topic.name for topic in request.topics)
    results: dict[str, Refused | None] = {}
    wanted: list[NewPartitions] = []
    for topic in request.topics:
        if times[topic.name] > 1:
            results[topic.name] = Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        elif not context.may(Operation.ALTER, topic=topic.name):
            results[topic.name] = Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        else:
            wanted.append(_new_partitions(topic))
    outcomes = await services.metadata.create_partitions(
        wanted,
        validate_only=request.validate_only,
        take=context.permits(is_strict=context.api_version >= STRICT_SINCE),
    )
    results |= {new.topic: outcome for new, outcome in zip(wanted, outcomes, strict=True)}
    return CreatePartitionsResponse(results=[_result(name, results[name]) for name in times])


def _new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = None
    if topic.assignments is not None:
        assignments = tuple(tuple(assignment.broker_ids) for assignment in topic.assignments)
    return NewPartitions(topic.name, topic.count, assignments)


def _result(name: str, refused: Refused | None) -> CreatePartitionsTopicResult:
    if refused is None:
        return CreatePartitionsTopicResult(name)
    return CreatePartitionsTopicResult(name, refused.code, refused.message or None)
