"""EndTxn v0-5: commit or abort.

v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588). v3 flexible. v4
TRANSACTION_ABORTABLE. v5 every transaction ends with a new epoch, which the response contains
(KIP-890). oncelog's own tagged field, from v3 on: other transactions of the consumer group, which
the request ends too.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, then
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.transaction.commands.end_txn import EndTxn
from oncelog_server.transaction.error_versions import code_for_version
from oncelog_server.transaction.metadata import GroupedTransaction
from oncelog_server.transaction.results import UNKNOWN_PRODUCER, TransactionResult

API = ApiKey.END_TXN

BUMPS_EPOCH_SINCE: Final = 5


def handle(
    services: BrokerServices, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse | Deferred[EndTxnResponse] | None:
    bumps_epoch = context.api_version >= BUMPS_EPOCH_SINCE
    # Before v5 all transactions have the same epoch. So a delayed request that arrives after its
    # own retry looks like the end of the next transaction (KAFKA-17754). A client closes its
    # connection before it retries, so a request of a closed connection is dropped.
    if not bumps_epoch and context.session.has_hung_up():
        return None
    try:
        context.require(Operation.WRITE, transactional_id=request.transactional_id)
        if services.producer_id_owners.by_block:
            services.producer_id_owners.require(context, request.producer_id)
        result = _decide(services, context, request, bumps_epoch=bumps_epoch)
    except Refused as refused:
        result = TransactionResult(refused.code)
    return then(result, lambda done: _response(context, done))


def _decide(
    services: BrokerServices, context: RequestContext, request: EndTxnRequest, *, bumps_epoch: bool
) -> TransactionResult | Deferred[TransactionResult]:
    """Return the result of the coordinator. Raises Refused if the request has other transactions
    and no consumer group, or if the coordinator refuses it."""
    command = EndTxn(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        bumps_epoch,
        request.transaction_group_id,
    )
    if not request.members:
        return services.transactions.end_txn(command)
    if request.transaction_group_id is None:
        raise Refused(ErrorCode.INVALID_REQUEST)
    members = sorted(
        GroupedTransaction(member.transactional_id, member.producer_id, member.producer_epoch)
        for member in request.members
    )
    for member in members:
        if not context.may(Operation.WRITE, transactional_id=member.transactional_id):
            return TransactionResult(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                refused_member=member.transactional_id,
            )
        if not services.producer_id_owners.may_use(context, member.producer_id):
            return replace(UNKNOWN_PRODUCER, refused_member=member.transactional_id)
    return services.transactions.end_txn(replace(command, members=tuple(members)))


def _response(context: RequestContext, result: TransactionResult) -> EndTxnResponse:
    return EndTxnResponse(
        error_code=result.code and code_for_version(API, context.api_version, result.code),
        producer_id=result.producer_id,
        producer_epoch=result.producer_epoch,
        refused_member=result.refused_member,
    )
