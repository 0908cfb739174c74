"""DescribeTransactions v0: transactional ids as their coordinator knows them (KIP-664)."""

from __future__ import annotations

from typing import Any

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, gather, then
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.slices import Steps, when_large
from oncelog_server.transaction.described import to_row

API = ApiKey.DESCRIBE_TRANSACTIONS


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse | Deferred[DescribeTransactionsResponse] | Steps[Any]:
    return when_large(len(request.transactional_ids), _steps(services, context, request))


def _steps(
    services: BrokerServices, context: RequestContext, request: DescribeTransactionsRequest
) -> Steps[DescribeTransactionsResponse | Deferred[DescribeTransactionsResponse]]:
    # An id that the request repeats is described only once: a description lists all partitions, so
    # repetitions would make the response large.
    states = []
    for transactional_id in dict.fromkeys(request.transactional_ids):
        found = _state(services, context, transactional_id)
        states.append(then(found, lambda state: _visible(context, state)))
        yield
    return then(
        gather(states), lambda found: DescribeTransactionsResponse(transaction_states=found)
    )


def _visible(context: RequestContext, state: TransactionState) -> TransactionState:
    """Return the state without the topics that the client may not see."""
    state.topics = [
        topic
        for topic in state.topics
        if context.may(Operation.DESCRIBE, topic=topic.topic, logged=False)
    ]
    return state


def _state(
    services: BrokerServices, context: RequestContext, transactional_id: str
) -> TransactionState | Deferred[TransactionState]:
    try:
        return _describe(services, context, transactional_id)
    except Refused as refused:
        return TransactionState(refused.code, transactional_id)


def _describe(
    services: BrokerServices, context: RequestContext, transactional_id: str
) -> TransactionState | Deferred[TransactionState]:
    """Return the state of a transactional id. Raises Refused if it is empty or unknown, or if the
    client may not describe it."""
    context.require(Operation.DESCRIBE, transactional_id=transactional_id)
    if not transactional_id:
        raise Refused(ErrorCode.INVALID_REQUEST)
    others = services.other_coordinators
    if others is not None:
        # Another broker may coordinate the consumer group of the transactional id.
        group_id = services.transactions.group_of(transactional_id)
        if group_id is not None:
            return others.describe(transactional_id, group_id)
    return to_row(services.transactions.views.details(transactional_id))
