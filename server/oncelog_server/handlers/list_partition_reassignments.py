"""ListPartitionReassignments: partitions that are moving to other brokers (KIP-455).

v0: the request names partitions, or requests all
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.image import TopicImage
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import Steps, when_large

API = ApiKey.LIST_PARTITION_REASSIGNMENTS


def handle(
    services: BrokerServices, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse | Steps[ListPartitionReassignmentsResponse]:
    """Return the partitions that are moving. Unknown partitions are left out, as in Kafka."""
    if not context.may(Operation.DESCRIBE, CLUSTER):
        return ListPartitionReassignmentsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = services.metadata.image.topics
    if request.topics is None:
        return when_large(len(topics), _steps((topic, None) for topic in topics.values()))
    # A topic that the request repeats is listed only once.
    wanted: dict[str, set[int]] = {}
    for named in request.topics:
        wanted.setdefault(named.name, set()).update(named.partition_indexes)
    known = ((topics[name], indexes) for name, indexes in wanted.items() if name in topics)
    return when_large(len(request.topics), _steps(known))


def _steps(
    topics: Iterable[tuple[TopicImage, Container[int] | None]],
) -> Steps[ListPartitionReassignmentsResponse]:
    moving = []
    for topic, wanted in topics:
        found = _moving(topic, wanted)
        if found.partitions:
            moving.append(found)
        yield
    return ListPartitionReassignmentsResponse(topics=moving)


def _moving(topic: TopicImage, wanted: Container[int] | None) -> OngoingTopicReassignment:
    return OngoingTopicReassignment(
        topic.name,
        [
            OngoingPartitionReassignment(
                partition.partition,
                list(partition.replicas),
                list(partition.adding),
                list(partition.removing),
            )
            for partition in topic.partitions
            if (partition.adding or partition.removing)
            and (wanted is None or partition.partition in wanted)
        ],
    )
