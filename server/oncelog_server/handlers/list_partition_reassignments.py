"""ListPartitionReassignments: partitions that are moving to other brokers (KIP-455).

v0: the request names partitions, or requests all
"""

from __future__ import annotations

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

API = ApiKey.LIST_PARTITION_REASSIGNMENTS


def handle(
    services: BrokerServices, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the partitions that are moving. Unknown partitions are left out, as in Kafka."""
    if not context.may(Operation.DESCRIBE, CLUSTER):
        return ListPartitionReassignmentsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = services.metadata.image.topics
    if request.topics is None:
        moving = [_moving(topic, None) for topic in topics.values()]
    else:
        moving = [
            _moving(topic, frozenset(named.partition_indexes))
            for named in request.topics
            if (topic := topics.get(named.name)) is not None
        ]
    return ListPartitionReassignmentsResponse(
        topics=[topic for topic in moving if topic.partitions]
    )


def _moving(topic: TopicImage, wanted: frozenset[int] | None) -> OngoingTopicReassignment:
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
