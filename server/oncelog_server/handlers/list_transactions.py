"""ListTransactions v0-2: the transactional ids that this broker coordinates (KIP-664).

v1 filter by duration (KIP-994). v2 filter by a pattern of the id (KIP-1152).

The response has all ids that match and that the client may describe, or an error. If an id were
missing, its transaction would look hanging, and an operator would abort the transaction without the
coordinator. So a client that may do this learns by a tagged field that ids are left out."""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from oncelog_protocol.pattern import Pattern, PatternError
from oncelog_server.broker_services import BrokerServices
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import Steps, when_large
from oncelog_server.transaction.listing import STATES_BY_NAME, TransactionFilter

API = ApiKey.LIST_TRANSACTIONS


def handle(
    services: BrokerServices, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | Steps[ListTransactionsResponse]:
    views = services.transactions.views
    missing = views.listing_error(services.metadata.image, services.broker_id, services.partitions)
    if missing is not ErrorCode.NONE:
        return ListTransactionsResponse(error_code=missing)
    return when_large(views.count(), _steps(services, context, request))


def _steps(
    services: BrokerServices, context: RequestContext, request: ListTransactionsRequest
) -> Steps[ListTransactionsResponse]:
    unknown = dict.fromkeys(name for name in request.state_filters if name not in STATES_BY_NAME)
    response = ListTransactionsResponse(unknown_state_filters=list(unknown))
    states = []
    leaves_out = False
    try:
        wanted = _filter(request)
        for view in services.transactions.views.all():
            if wanted.has(view, wall_ms=services.clock.now_ms()):
                if context.may(
                    Operation.DESCRIBE, transactional_id=view.transactional_id, logged=False
                ):
                    states.append(
                        TransactionState(
                            view.transactional_id, view.producer_id, view.state.kafka_name
                        )
                    )
                else:
                    leaves_out = True
            yield
    except PatternError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    response.transaction_states = states
    response.leaves_out = leaves_out and _may_write_markers(context)
    return response


def _may_write_markers(context: RequestContext) -> bool:
    """Return True if the client may abort a transaction without its coordinator."""
    return any(
        context.may(operation, CLUSTER, logged=False)
        for operation in (Operation.ALTER, Operation.CLUSTER_ACTION)
    )


def _filter(request: ListTransactionsRequest) -> TransactionFilter:
    """Return the filter of the request. Raises PatternError if the pattern of ids is invalid."""
    states = frozenset(
        STATES_BY_NAME[name] for name in request.state_filters if name in STATES_BY_NAME
    )
    return TransactionFilter(
        states if request.state_filters else None,
        frozenset(request.producer_id_filters),
        request.duration_filter,
        Pattern(request.transactional_id_pattern) if request.transactional_id_pattern else None,
    )
