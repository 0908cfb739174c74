"""DescribeProducers v0: the producers of a partition, with their open transactions in it
(KIP-664)."""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topic_names import check_topic_name
from oncelog_server.default_messages import message_of
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.views.partitions import ProducerView

API = ApiKey.DESCRIBE_PRODUCERS


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[_topic(services, context, topic) for topic in request.topics]
    )


def _topic(services: BrokerServices, context: RequestContext, topic: TopicRequest) -> TopicResponse:
    try:
        check_topic_name(topic.name)
        context.require(Operation.READ, topic=topic.name)
    except Refused as refused:
        message = message_of(refused)
        return TopicResponse(
            topic.name,
            [
                PartitionResponse(partition_index, refused.code, message)
                for partition_index in topic.partition_indexes
            ],
        )
    return TopicResponse(
        topic.name,
        [
            _partition(services, topic.name, partition_index)
            for partition_index in topic.partition_indexes
        ],
    )


def _partition(services: BrokerServices, topic: str, index: int) -> PartitionResponse:
    try:
        # A follower accepts the request too, so that an operator can compare the replicas.
        producers = services.views.partitions.producers(topic, index)
    except Refused as refused:
        # Kafka has a message for an unknown topic, and none for an unknown partition.
        is_known = topic in services.metadata.image.topics
        message = refused.message or None if is_known else message_of(refused)
        return PartitionResponse(index, refused.code, message)
    return PartitionResponse(index, active_producers=[_state(found) for found in producers])


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
