"""ElectLeaders: elect the preferred replica, or any replica (KIP-183, KIP-460). A partition has a
single replica, which leads it unless the replica is offline.

v0: preferred leaders
v1: unclean elections; an error for the whole response
v2: flexible
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.image import NO_LEADER
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.ELECT_LEADERS

PREFERRED: Final = 0
UNCLEAN: Final = 1
NOT_ELECTED: Final = {
    PREFERRED: (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        "The preferred leader was not available.",
    ),
    UNCLEAN: (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}


def handle(
    services: BrokerServices, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    if not context.may(Operation.ALTER, CLUSTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _refused(request, code, "Cluster authorization failed.")
    election_type = request.election_type
    if election_type not in NOT_ELECTED:
        message = f"Unknown election type {election_type}"
        return _refused(request, ErrorCode.INVALID_REQUEST, message)
    if request.topic_partitions is None:
        return ElectLeadersResponse(
            replica_election_results=[
                ReplicaElectionResult(
                    name,
                    # Partitions that already have the requested leader are left out.
                    [
                        result
                        for result in _elect(
                            services, election_type, name, range(len(of.partitions))
                        )
                        if result.error_code != ErrorCode.ELECTION_NOT_NEEDED
                    ],
                )
                for name, of in services.metadata.image.topics.items()
            ]
        )
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic_partition.topic,
                list(
                    _elect(
                        services, election_type, topic_partition.topic, topic_partition.partitions
                    )
                ),
            )
            for topic_partition in request.topic_partitions
        ]
    )


def _elect(
    services: BrokerServices, election_type: int, name: str, partitions: Iterable[int]
) -> Iterable[PartitionResult]:
    topic = services.metadata.image.topics.get(name)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for number in partitions:
        if topic is None:
            yield PartitionResult(number, unknown, f"No such topic as {name}")
        elif not 0 <= number < len(topic.partitions):
            yield PartitionResult(number, unknown, f"No such partition as {name}-{number}")
        elif services.views.leader_of(name, topic.partitions[number]) == NO_LEADER:
            yield PartitionResult(number, *NOT_ELECTED[election_type])
        else:
            yield PartitionResult(
                number,
                ErrorCode.ELECTION_NOT_NEEDED,
                "Leader election not needed for topic partition.",
            )


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
