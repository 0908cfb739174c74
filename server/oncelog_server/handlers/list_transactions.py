"""ListTransactions v0-2: the transactional ids this broker coordinates (KIP-664).

v1 filter by duration (KIP-994). v2 filter by a pattern of the id (KIP-1152).
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from oncelog_server.network.request_context import RequestContext
from oncelog_server.node import Node
from oncelog_server.pattern import Pattern, PatternError
from oncelog_server.security.authorizer import Operation, Resource, ResourceType
from oncelog_server.transaction.listing import (
    STATES_BY_NAME,
    TransactionFilter,
    list_transactions,
)

API = ApiKey.LIST_TRANSACTIONS
VERSIONS = range(0, 3)


def handle(
    node: Node, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    unknown = [name for name in request.state_filters if name not in STATES_BY_NAME]
    try:
        wanted = _filter(request)
        found = [
            one
            for _, shard in node.transactions.runtime.shards()
            for one in list_transactions(shard, wanted, wall_ms=node.clock.now_ms())
            if _may_describe(node, context, one)
        ]
    except PatternError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)


def _filter(request: ListTransactionsRequest) -> TransactionFilter:
    """Raises PatternError."""
    states = frozenset(
        STATES_BY_NAME[name] for name in request.state_filters if name in STATES_BY_NAME
    )
    return TransactionFilter(
        states if request.state_filters else None,
        frozenset(request.producer_id_filters),
        request.duration_filter,
        Pattern(request.transactional_id_pattern) if request.transactional_id_pattern else None,
    )


def _may_describe(node: Node, context: RequestContext, one: TransactionState) -> bool:
    resource = Resource(ResourceType.TRANSACTIONAL_ID, one.transactional_id)
    return node.authorizer.authorise(context.principal, Operation.DESCRIBE, resource)
