"""DescribeTransactions v0: transactional ids as their coordinator knows them (KIP-664)."""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.network.request_context import RequestContext
from oncelog_server.refusal import Refused
from oncelog_server.security.resources import Operation
from oncelog_server.transaction.listing import describe_transaction

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
        topic for topic in state.topics if context.may(Operation.DESCRIBE, topic=topic.topic)
    ]
    return state


def _describe(
    services: BrokerServices, context: RequestContext, transactional_id: str
) -> TransactionState:
    """Raises Refused."""
    context.require(Operation.DESCRIBE, transactional_id=transactional_id)
    if not transactional_id:
        raise Refused(ErrorCode.INVALID_REQUEST)
    live = services.transactions.find(transactional_id)
    return describe_transaction(live, now_ms=services.clock.monotonic_ms())
