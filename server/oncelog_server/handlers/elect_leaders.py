"""ElectLeaders: elect the preferred replica, or any replica of a partition without a leader
(KIP-183, KIP-460).

v0: preferred leaders
v1: unclean elections; an error for the whole response
v2: flexible
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.image import NO_LEADER
from oncelog_server.cluster.requested_elections import ElectionType, Outcome
from oncelog_server.deferred import Deferred
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.topic_partition import TopicPartition

API = ApiKey.ELECT_LEADERS


def handle(
    services: BrokerServices, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse | Deferred[ElectLeadersResponse]:
    if not context.may(Operation.ALTER, CLUSTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _refused(request, code, "Cluster authorization failed.")
    try:
        kind = ElectionType(request.election_type)
    except ValueError:
        message = f"Unknown election type {request.election_type}"
        return _refused(request, ErrorCode.INVALID_REQUEST, message)
    return services.spawn(_elect(services, kind, request))


async def _elect(
    services: BrokerServices, kind: ElectionType, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    topics = request.topic_partitions
    is_for_all = topics is None
    if topics is None:
        if (failed := await services.metadata.catch_up()) is not None:
            return _refused(request, failed.code, failed.message)
        topics = [
            TopicPartitions(name, list(range(len(topic.partitions))))
            for name, topic in services.metadata.image.topics.items()
        ]
    wanted = [
        TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions
    ]
    unserved = {name for name in wanted if _is_unserved(services, name)}
    outcomes = await services.metadata.elect_leaders(kind, wanted, unserved)
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic.topic,
                [
                    _result(number, outcome)
                    for number in topic.partitions
                    # If all partitions were requested, the response omits those that needed no
                    # election.
                    if not _is_not_needed(outcome := outcomes[TopicPartition(topic.topic, number)])
                    or not is_for_all
                ],
            )
            for topic in topics
        ]
    )


def _is_unserved(services: BrokerServices, name: TopicPartition) -> bool:
    """Return True for a partition with a single replica on this broker, and an unusable log."""
    partition = services.metadata.image.partition(*name)
    return (
        partition is not None
        and partition.replicas == (services.broker_id,)
        and services.views.leader_of(name.topic, partition) == NO_LEADER
    )


def _is_not_needed(outcome: Outcome) -> bool:
    return outcome is not None and outcome.code is ErrorCode.ELECTION_NOT_NEEDED


def _result(number: int, outcome: Outcome) -> PartitionResult:
    if outcome is None:
        return PartitionResult(number)
    return PartitionResult(number, outcome.code, outcome.message)


def _refused(request: ElectLeadersRequest, code: ErrorCode, message: str) -> ElectLeadersResponse:
    """Return the response with the error. Each partition of the request has it too, because v0 has
    no error for the whole response."""
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic_partition.topic,
                [PartitionResult(number, code, message) for number in topic_partition.partitions],
            )
            for topic_partition in request.topic_partitions or ()
        ],
    )
