"""ListTransactions v0-2: the transactional ids this broker coordinates (KIP-664).

v1 filter by duration (KIP-994). v2 filter by a pattern of the id (KIP-1152).

All ids or none: an operator would take the transactions of missing ids for hanging, and abort them
without their coordinator."""

from __future__ import annotations

import asyncio
from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from oncelog_protocol.pattern import Pattern, PatternError
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred
from oncelog_server.network.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.transaction.listing import STATES_BY_NAME, TransactionFilter, list_transactions
from oncelog_server.transaction.listing_error import listing_error
from oncelog_server.transaction.shard import LiveTransaction

API = ApiKey.LIST_TRANSACTIONS

# Ids listed in one turn of the loop, which takes some 10 ms.
PER_TURN: Final = 2_000


def handle(
    services: BrokerServices, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | Deferred[ListTransactionsResponse]:
    missing = listing_error(
        services.metadata.image,
        services.broker_id,
        services.partitions,
        services.transactions.runtime,
    )
    if missing is not ErrorCode.NONE:
        return ListTransactionsResponse(error_code=missing)
    response = ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in STATES_BY_NAME]
    )
    lives = [
        live
        for _, shard in services.transactions.runtime.shards()
        for live in shard.transactions.values()
    ]
    try:
        listing = _Listing(services, context, _filter(request), response)
        if len(lives) > PER_TURN:
            return services.spawn(listing.add_in_turns(lives))
        listing.add(lives)
    except PatternError:
        response.error_code = ErrorCode.INVALID_REGULAR_EXPRESSION
    return response


class _Listing:
    """A response that is built in several turns of the loop."""

    def __init__(
        self,
        services: BrokerServices,
        context: RequestContext,
        wanted: TransactionFilter,
        response: ListTransactionsResponse,
    ) -> None:
        self._services = services
        self._context = context
        self._wanted = wanted
        self._response = response

    def add(self, lives: list[LiveTransaction]) -> None:
        """Raises PatternError."""
        self._response.transaction_states += [
            list_transaction
            for list_transaction in list_transactions(
                lives, self._wanted, wall_ms=self._services.clock.now_ms()
            )
            if self._context.may(
                Operation.DESCRIBE, transactional_id=list_transaction.transactional_id
            )
        ]

    async def add_in_turns(self, lives: list[LiveTransaction]) -> ListTransactionsResponse:
        """Add the transactions with turns of the loop in between."""
        try:
            for first in range(0, len(lives), PER_TURN):
                self.add(lives[first : first + PER_TURN])
                await asyncio.sleep(0)
        except PatternError:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
        return self._response


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
