"""TxnOffsetCommit v0-6: a group's offsets as part of a transaction (KIP-98).

v2 leader epochs. v3 flexible; member, generation and instance, so that zombies are fenced
(KIP-447). v4 TRANSACTION_ABORTABLE. v5 adds the group to the transaction by itself (KIP-890). v6
topic ids.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, then, then_ask
from oncelog_server.handlers.committed_topics import (
    Codes,
    all_with,
    answered,
    codes_of,
    created_first,
    refuse_unknown,
    size_of,
)
from oncelog_server.handlers.group_caller import caller
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import Operation
from oncelog_server.slices import Steps, when_large
from oncelog_server.transaction.offset_commit import TransactionalCommit, TxnOffsetCommitResult

API = ApiKey.TXN_OFFSET_COMMIT

ADDS_GROUP_SINCE: Final = 5
TOPIC_IDS_SINCE: Final = 6


Answered = TxnOffsetCommitResponse | Steps[TxnOffsetCommitResponse]
Answer = Answered | Deferred[Answered]


def handle(
    services: BrokerServices, context: RequestContext, request: TxnOffsetCommitRequest
) -> Any:
    def commit(_: None) -> Any:
        return when_large(size_of(request.topics), _steps(services, context, request))

    return then_ask(created_first(services, context, request.topics), commit)


def _steps(
    services: BrokerServices, context: RequestContext, request: TxnOffsetCommitRequest
) -> Steps[Answer]:
    by_id = context.api_version >= TOPIC_IDS_SINCE
    try:
        context.require(Operation.WRITE, transactional_id=request.transactional_id)
        context.require(Operation.READ, group=request.group_id)
    except Refused as error:
        return _response(request, all_with(request.topics, error.code))
    accepted, refused = yield from refuse_unknown(services, context, request.topics, by_id=by_id)
    if not accepted:
        return _response(request, refused)
    if not request.group_id:
        # The group id is checked before the transaction, as in Kafka.
        invalid = all_with(accepted, ErrorCode.INVALID_GROUP_ID)
        return _response(request, invalid | refused)
    if not services.producer_id_owners.may_use(context, request.producer_id):
        foreign = all_with(accepted, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return _response(request, foreign | refused)
    wanted = copy(request)
    wanted.topics = accepted
    settings = services.settings
    committed = TransactionalCommit(
        services.transactions,
        services.partition_adding,
        services.groups,
        wanted,
        caller=context,
        asking=lambda: caller(services, context),
        api_version=context.api_version,
        aborts_older=services.has_group_transactions,
        others=services.other_coordinators,
    ).run(
        adds=context.api_version >= ADDS_GROUP_SINCE,
        verifies=settings.transaction_partition_verification_enable,
    )

    def response(outcome: TxnOffsetCommitResult) -> Answered:
        codes = (
            all_with(accepted, outcome)
            if isinstance(outcome, ErrorCode)
            else answered(outcome.topics)
        )
        return _response(request, codes | refused)

    return then(committed, response)


def _response(request: TxnOffsetCommitRequest, codes: Codes) -> Answered:
    return when_large(size_of(request.topics), _response_steps(request, codes))


def _response_steps(
    request: TxnOffsetCommitRequest, codes: Codes
) -> Steps[TxnOffsetCommitResponse]:
    topics = []
    for topic in request.topics:
        rows = [
            TxnOffsetCommitResponsePartition(index, code) for index, code in codes_of(topic, codes)
        ]
        topics.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, rows))
        yield
    return TxnOffsetCommitResponse(topics=topics)
