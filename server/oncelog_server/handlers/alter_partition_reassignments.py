"""AlterPartitionReassignments: move partitions to other brokers, or cancel such moves (KIP-455).

v0: the wanted replicas of each partition; null cancels
v1: a request may forbid a change of the number of replicas (KIP-860)
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.reassignment_changes import PartitionTarget
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.ALTER_PARTITION_REASSIGNMENTS


def handle(
    services: BrokerServices, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse | Deferred[AlterPartitionReassignmentsResponse]:
    if not context.may(Operation.ALTER, CLUSTER):
        return _denied(request)
    if not request.topics:
        return AlterPartitionReassignmentsResponse(error_message="")
    return services.spawn(_alter(services, request))


def _denied(
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse:
    """Return the response with the error, which each partition of the request has too."""
    code, message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                topic.name,
                [
                    ReassignablePartitionResponse(row.partition_index, code, message)
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


async def _alter(
    services: BrokerServices, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    targets = [
        PartitionTarget(
            topic.name,
            partition.partition_index,
            None if partition.replicas is None else tuple(partition.replicas),
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    results = iter(
        await services.metadata.reassign_partitions(
            targets, may_change_factor=request.allow_replication_factor_change
        )
    )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(
                topic.name,
                list(_rows([row.partition_index for row in topic.partitions], results)),
            )
            for topic in request.topics
        ],
    )


def _rows(
    partitions: Iterable[int], results: Iterable[Refused | None]
) -> Iterable[ReassignablePartitionResponse]:
    """Yield the next results as the rows of these partitions."""
    for number, refused in zip(partitions, results, strict=False):
        if refused is None:
            yield ReassignablePartitionResponse(number)
        else:
            yield ReassignablePartitionResponse(number, refused.code, refused.message or None)
