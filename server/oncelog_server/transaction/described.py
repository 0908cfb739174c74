"""The details of a transactional id as a row of DescribeTransactions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from oncelog_protocol.messages.describe_transactions import FenceData, TopicData, TransactionState
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.transactions import TransactionDetails


def to_row(found: TransactionDetails) -> TransactionState:
    """Return the row of an id, with all its partitions."""
    state = TransactionState(
        transactional_id=found.transactional_id,
        transaction_state=found.state.kafka_name,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=to_topics(found.partitions),
        client_id=found.client_id,
        client_address=found.client_address,
        principal=found.principal,
        fences=[
            FenceData(
                fence.producer_id,
                fence.producer_epoch,
                fence.cause,
                fence.at_ms,
                fence.client_id,
                fence.client_address,
                fence.refusals,
                fence.principal,
            )
            for fence in found.fences
        ],
    )
    if found.time_left_ms is not None:
        state.time_left_ms = found.time_left_ms
    return state


def to_topics(partitions: Iterable[TopicPartition]) -> list[TopicData]:
    """Return the partitions by topic, in the order of the topics' first partitions."""
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        topics[topic].append(partition)
    return [TopicData(topic, of_topic) for topic, of_topic in topics.items()]
