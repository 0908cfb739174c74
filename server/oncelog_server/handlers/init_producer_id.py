"""InitProducerId v0-6: a producer id and epoch, for a transactional id or for idempotence alone.

v2 flexible. v3 a producer may request its own next epoch (KIP-360). v4 PRODUCER_FENCED instead of
INVALID_PRODUCER_EPOCH (KIP-588). v5 TRANSACTION_ABORTABLE (KIP-890). v6 two-phase commit (KIP-939).
oncelog's own tagged fields, from v2 on: the producer's consumer group (KIP-447, early draft), and a
mark for calls by an operator.
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, then
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation, ResourceType
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import quota_client
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.error_versions import code_for_version
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.initialization import Initialization
from oncelog_server.transaction.results import TransactionResult

API = ApiKey.INIT_PRODUCER_ID


def handle(
    services: BrokerServices, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Deferred[InitProducerIdResponse]:
    try:
        result = _init(services, context, request)
    except Refused as refused:
        result = TransactionResult(refused.code)
    return then(result, lambda done: _response(context, done))


def _init(
    services: BrokerServices, context: RequestContext, request: InitProducerIdRequest
) -> TransactionResult | Deferred[TransactionResult]:
    """Return the new producer id and epoch, or a Deferred of them. Raises Refused for an invalid
    request and for a right that the client lacks."""
    membership = _membership(services, request)
    if request.transactional_id is None:
        _require_idempotent_write(context)
        if (request.producer_id == -1) != (request.producer_epoch == -1):
            raise Refused(ErrorCode.INVALID_REQUEST)
        return services.producer_ids.when_available(
            context.principal, lambda: _take_id(services, context)
        )
    context.require(Operation.WRITE, transactional_id=request.transactional_id)
    if not request.transactional_id:
        raise Refused(ErrorCode.INVALID_REQUEST)
    if request.enable_2pc or request.keep_prepared_txn:
        if not services.settings.transaction_two_phase_commit_enable:
            raise Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        context.require(Operation.TWO_PHASE_COMMIT, transactional_id=request.transactional_id)
    if membership is not None:
        context.require(Operation.READ, group=membership.group_id)
    services.producer_id_owners.require(context, request.producer_id)
    command = InitProducerId(
        request.transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
        request.enable_2pc,
        request.keep_prepared_txn,
        context,
        request.by_operator,
    )
    return Initialization(
        services.transactions,
        services.groups,
        services.producer_id_quota,
        services.producer_ids,
        services.clock.monotonic_ms,
        context,
        command,
        membership,
        services.other_coordinators,
    ).run()


def _take_id(services: BrokerServices, context: RequestContext) -> TransactionResult:
    """Return a new id, and charge it to the client's quota. Raises Refused. A request without a
    result costs nothing: while no id is available, every client repeats its request."""
    quota, client = services.producer_id_quota, quota_client(context)
    quota.charge(client, services.clock.monotonic_ms())
    try:
        producer_id = services.producer_ids.take(context.principal)
    except Refused:
        quota.give_back(client)
        raise
    return TransactionResult(ErrorCode.NONE, producer_id, 0)


def _membership(services: BrokerServices, request: InitProducerIdRequest) -> GroupAssignment | None:
    """Return the producer's membership in a consumer group. Return None if the request has none.
    Raises Refused if the membership is incomplete, if the request has no transactional id, or if
    group.transactions.enable is false."""
    group_id, generation_id = request.consumer_group_id, request.consumer_group_generation
    assigned = request.assigned_partitions
    if group_id is None and generation_id < 0 and assigned is None:
        return None
    if not group_id or generation_id < 0 or assigned is None or not request.transactional_id:
        raise Refused(ErrorCode.INVALID_REQUEST)
    if not services.has_group_transactions:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)
    partitions = [
        TopicPartition(topic.topic, index) for topic in assigned for index in topic.partitions
    ]
    return GroupAssignment(group_id, generation_id, frozenset(partitions))


def _require_idempotent_write(context: RequestContext) -> None:
    """Raise Refused unless the principal has IDEMPOTENT_WRITE on the cluster, or may write to a
    topic (perhaps one that does not exist yet). The right to write includes idempotent writes
    (KIP-679)."""
    if not (
        context.may(Operation.IDEMPOTENT_WRITE, CLUSTER, logged=False)
        or context.may_any(Operation.WRITE, ResourceType.TOPIC)
    ):
        context.require(Operation.IDEMPOTENT_WRITE, CLUSTER)


def _response(context: RequestContext, result: TransactionResult) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code_for_version(API, context.api_version, result.code),
        producer_id=result.producer_id,
        producer_epoch=result.producer_epoch,
        ongoing_txn_producer_id=result.ongoing_producer_id,
        ongoing_txn_producer_epoch=result.ongoing_producer_epoch,
    )
