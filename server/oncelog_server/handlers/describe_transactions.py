"""DescribeTransactions v0: transactional ids as their coordinator knows them (KIP-664)."""

from __future__ import annotations

from collections import defaultdict

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    FenceData,
    TopicData,
    TransactionState,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.views.transactions import TransactionDetails

API = ApiKey.DESCRIBE_TRANSACTIONS


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_state(services, context, id_) for id_ in request.transactional_ids]
    )


def _state(
    services: BrokerServices, context: RequestContext, transactional_id: str
) -> TransactionState:
    try:
        state = _describe(services, context, transactional_id)
    except Refused as refused:
        return TransactionState(refused.code, transactional_id)
    # Topics that the client may not see are left out.
    state.topics = [
        topic
        for topic in state.topics
        if context.may(Operation.DESCRIBE, topic=topic.topic, logged=False)
    ]
    return state


def _describe(
    services: BrokerServices, context: RequestContext, transactional_id: str
) -> TransactionState:
    """Return the state of a transactional id. Raises Refused if it is empty or unknown, or if the
    client may not describe it."""
    context.require(Operation.DESCRIBE, transactional_id=transactional_id)
    if not transactional_id:
        raise Refused(ErrorCode.INVALID_REQUEST)
    return _response(services.transactions.views.details(transactional_id))


def _response(found: TransactionDetails) -> TransactionState:
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in found.partitions:
        topics[topic].append(partition)
    state = TransactionState(
        transactional_id=found.transactional_id,
        transaction_state=found.state.kafka_name,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[TopicData(topic, of_topic) for topic, of_topic in topics.items()],
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
