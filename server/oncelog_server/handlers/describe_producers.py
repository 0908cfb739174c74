"""DescribeProducers v0: the producers of a partition, with their open transactions in it
(KIP-664)."""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topic_names import check_topic_name
from oncelog_server.default_messages import message_of
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.slices import Steps
from oncelog_server.views.partitions import ProducerView

API = ApiKey.DESCRIBE_PRODUCERS


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeProducersRequest
) -> Steps[DescribeProducersResponse]:
    # A partition may have 100,000 producers. One that the request repeats is described only once.
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    topics = []
    for name, indexes in wanted.items():
        topics.append((yield from _topic(services, context, name, list(indexes))))
    return DescribeProducersResponse(topics=topics)


def _topic(
    services: BrokerServices, context: RequestContext, name: str, indexes: list[int]
) -> Steps[TopicResponse]:
    try:
        check_topic_name(name)
        context.require(Operation.READ, topic=name)
    except Refused as refused:
        message = message_of(refused)
        return TopicResponse(
            name, [PartitionResponse(index, refused.code, message) for index in indexes]
        )
    partitions = []
    for index in indexes:
        partitions.append((yield from _partition(services, name, index)))
    return TopicResponse(name, partitions)


def _partition(services: BrokerServices, topic: str, index: int) -> Steps[PartitionResponse]:
    producers = []
    try:
        # A follower accepts the request too, so that an operator can compare the replicas.
        for producer in services.views.partitions.producers(topic, index):
            producers.append(_state(producer))
            yield
    except Refused as refused:
        # Kafka has a message for an unknown topic, and none for an unknown partition.
        is_known = topic in services.metadata.image.topics
        message = refused.message or None if is_known else message_of(refused)
        return PartitionResponse(index, refused.code, message)
    yield
    return PartitionResponse(index, active_producers=producers)


def _state(producer: ProducerView) -> ProducerState:
    state = ProducerState(
        producer.producer_id,
        producer.producer_epoch,
        producer.last_sequence,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.transaction_first_offset,
    )
    if producer.held_records is not None and producer.held_bytes is not None:
        state.held_records, state.held_bytes = producer.held_records, producer.held_bytes
    return state
