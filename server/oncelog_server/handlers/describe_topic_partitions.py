"""DescribeTopicPartitions: metadata of topics, page by page (KIP-966).

v0: the partitions from a cursor on, and the cursor of the next page
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.image import TopicImage
from oncelog_server.cluster.topic_names import check_topic_name, is_internal
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation, Resource, ResourceType
from oncelog_server.slices import Steps, when_large
from oncelog_server.views.partitions import PartitionState

API = ApiKey.DESCRIBE_TOPIC_PARTITIONS

Topic = DescribeTopicPartitionsResponseTopic


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse | Steps[DescribeTopicPartitionsResponse]:
    size = len(request.topics) or len(services.metadata.image.topics)
    return when_large(size, _steps(services, context, request))


def _steps(
    services: BrokerServices, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Steps[DescribeTopicPartitionsResponse]:
    cursor = request.cursor
    asked_for = {topic.name for topic in request.topics}
    start, first = ("", 0) if cursor is None else (cursor.topic_name, cursor.partition_index)
    if first < 0 or (cursor is not None and asked_for and start not in asked_for):
        refused = [Topic(ErrorCode.INVALID_REQUEST, name) for name in sorted(asked_for)]
        return DescribeTopicPartitionsResponse(topics=refused)
    names = sorted(name for name in asked_for or services.metadata.image.topics if name >= start)
    limit = max(
        min(services.settings.max_request_partition_size_limit, request.response_partition_limit), 1
    )
    pages = _Pages(services, context, limit, only_visible=not asked_for)
    for name in names:
        if not pages.add(name, first if name == start else 0):
            break
        yield
    return DescribeTopicPartitionsResponse(
        topics=pages.topics_with_denied_last(), next_cursor=pages.next_cursor
    )


class _Pages:
    """One page of topics while it is built."""

    def __init__(
        self, services: BrokerServices, context: RequestContext, limit: int, *, only_visible: bool
    ) -> None:
        self.topics: list[Topic] = []
        self._denied: list[Topic] = []
        self.next_cursor: ResponseCursor | None = None
        self._services = services
        self._context = context
        self._left = limit
        self._only_visible = only_visible

    def topics_with_denied_last(self) -> list[Topic]:
        """Return the topics of the page. The topics that the client may not describe are last, as
        in Kafka."""
        return self.topics + self._denied

    def add(self, name: str, first: int) -> bool:
        """Add a topic to the page, from partition `first` on. If the page has no space for all of
        it, set `next_cursor` to the rest and return False."""
        services = self._services
        resource = Resource(ResourceType.TOPIC, name)
        if not self._context.may(Operation.DESCRIBE, resource, logged=not self._only_visible):
            if not self._only_visible:
                self._denied.append(Topic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name))
            return True
        topic = services.metadata.image.topics.get(name)
        if self._left == 0:
            self.next_cursor = ResponseCursor(name, 0)
            return False
        if topic is None:
            missing = Topic(_unknown(name), name, is_internal=is_internal(name))
            missing.topic_authorized_operations = self._context.authorized_operations(resource)
            self.topics.append(missing)
            return True
        states = services.views.states(topic, first, listener=self._context.listener_name)
        shown = list(islice(states, self._left))
        self.topics.append(self._shown(topic, shown))
        self._left -= len(shown)
        end = first + len(shown)
        if end < len(topic.partitions):
            self.next_cursor = ResponseCursor(name, end)
            return False
        return True

    def _shown(self, topic: TopicImage, states: Sequence[PartitionState]) -> Topic:
        resource = Resource(ResourceType.TOPIC, topic.name)
        return Topic(
            ErrorCode.NONE,
            topic.name,
            topic.id,
            is_internal(topic.name),
            [
                DescribeTopicPartitionsResponsePartition(
                    error_code=state.code,
                    partition_index=state.partition,
                    leader_id=state.leader,
                    leader_epoch=state.leader_epoch,
                    replica_nodes=list(state.replicas),
                    isr_nodes=list(state.isr),
                    eligible_leader_replicas=list(state.elr),
                    last_known_elr=list(state.last_known_elr),
                    offline_replicas=list(state.offline_replicas),
                )
                for state in states
            ],
            self._context.authorized_operations(resource),
        )


def _unknown(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except Refused as refused:
        return refused.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
