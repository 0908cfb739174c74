"""AddOffsetsToTxn v0-4: add a group's offsets to the transaction.

v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588). v3 flexible. v4
TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS
from oncelog_server.deferred import Deferred, then
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.error_versions import code_for_version
from oncelog_server.transaction.results import TransactionResult

API = ApiKey.ADD_OFFSETS_TO_TXN


def handle(
    services: BrokerServices, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Deferred[AddOffsetsToTxnResponse]:
    try:
        result = _add(services, context, request)
    except Refused as refused:
        result = TransactionResult(refused.code)
    return then(result, lambda done: _response(context, done))


def _add(
    services: BrokerServices, context: RequestContext, request: AddOffsetsToTxnRequest
) -> TransactionResult | Deferred[TransactionResult]:
    """Add the partition of the group's offsets to the transaction. Raises Refused."""
    context.require(Operation.WRITE, transactional_id=request.transactional_id)
    context.require(Operation.READ, group=request.group_id)
    services.producer_id_owners.require(context, request.producer_id)
    if CONSUMER_OFFSETS not in services.metadata.image.topics:
        # `__consumer_offsets` does not exist yet, because no client has requested a group's
        # coordinator. The response is COORDINATOR_NOT_AVAILABLE, which every client retries.
        services.spawn(services.metadata.missing_topics.create_one(CONSUMER_OFFSETS))
    return services.transactions.add_partitions(
        AddPartitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset({services.groups.offsets_partition(request.group_id)}),
            group_id=request.transaction_group_id,
            caller=context,
        )
    )


def _response(context: RequestContext, result: TransactionResult) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(
        error_code=code_for_version(API, context.api_version, result.code)
    )
