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
from oncelog_server.coordinator.shard import Decision
from oncelog_server.deferred import Deferred, then, then_ask
from oncelog_server.group.shard import GroupShard
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
from oncelog_server.network.request_context import RequestContext
from oncelog_server.refusal import Refused
from oncelog_server.security.resources import Operation
from oncelog_server.slices import Steps, when_large
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.error_versions import code_for_version
from oncelog_server.transaction.fences import FenceCause, Reason
from oncelog_server.transaction.grouped.dismissals import reason_of
from oncelog_server.transaction.results import SUCCESS, TransactionResult

API = ApiKey.TXN_OFFSET_COMMIT
VERSIONS = range(0, 7)

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
        # Checked before the transaction, as in Kafka.
        invalid = all_with(accepted, ErrorCode.INVALID_GROUP_ID)
        return _response(request, invalid | refused)
    adds = context.api_version >= ADDS_GROUP_SINCE
    added: TransactionResult | Deferred[TransactionResult] = SUCCESS
    try:
        if (
            adds
            or services.settings.transaction_partition_verification_enable
            # The coordinator of the transaction group knows whether there is a newer generation.
            or request.transaction_group_id is not None
        ):
            added = _add_group(services, context, request, verify_only=not adds)
    except Refused as error:
        added = TransactionResult(error.code)
    wanted = copy(request)
    wanted.topics = accepted
    codes = then_ask(added, _Commit(services, context, wanted).codes)
    return then(codes, lambda found: _response(request, found | refused))


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


def _add_group(
    services: BrokerServices,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    *,
    verify_only: bool,
) -> TransactionResult | Deferred[TransactionResult]:
    """Add the group's offsets partition to the transaction (KIP-890 part 2), or verify that it is
    in it (part 1). Raise Refused if the coordinator cannot."""
    return services.transactions.add_partitions(
        AddPartitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset({services.groups.offsets_partition(request.group_id)}),
            client_transaction_version=2,
            verify_only=verify_only,
            group_id=request.transaction_group_id,
            caller=context,
        )
    )


class _Commit:
    """The commit itself, after the group is in the transaction."""

    def __init__(
        self,
        services: BrokerServices,
        context: RequestContext,
        request: TxnOffsetCommitRequest,
    ) -> None:
        self._services = services
        self._context = context
        self._request = request

    def codes(self, added: TransactionResult) -> Codes | Deferred[Codes]:
        if added.code is not ErrorCode.NONE:
            code = code_for_version(API, self._context.api_version, added.code)
            return all_with(self._request.topics, code)
        services = self._services
        try:
            if services.settings.group_transactions_enable:
                others = services.groups.concurrent_producers(self._request)
                if others:
                    return self._stage_after(
                        services.transactions.abort_older(others, self._context)
                    )
            return self._stage()
        except Refused as refused:
            return all_with(self._request.topics, refused.code)

    def _stage_after(
        self, aborted: TransactionResult | Deferred[TransactionResult]
    ) -> Codes | Deferred[Codes]:
        """Stage the offsets after the older transactions are aborted, unless a request on another
        connection has ended this transaction meanwhile: the offsets would stay open in the log for
        ever, in a transaction that the coordinator does not know. Raise Refused if the group's
        partition is unavailable."""
        if not isinstance(aborted, Deferred):
            return self._stage_alone(aborted)
        producer_id = self._request.producer_id
        log = self._services.groups.log_of(self._request.group_id)
        guard = log.begin_verification(producer_id)

        def go_on(result: TransactionResult) -> Codes | Deferred[Codes]:
            try:
                if result.code is ErrorCode.NONE and not log.guards.holds(producer_id, guard):
                    return self._too_late()
                return self._stage_alone(result)
            finally:
                log.end_verification(producer_id, guard)

        aborted.on_abandon(lambda: log.end_verification(producer_id, guard))
        return then_ask(aborted, go_on)

    def _too_late(self) -> Codes | Deferred[Codes]:
        """Return the codes that a request would get now. If the group is in a transaction of the
        producer again, that is another transaction (R12)."""
        try:
            asked = _add_group(self._services, self._context, self._request, verify_only=True)
        except Refused as refused:
            asked = TransactionResult(refused.code)

        def refuse(found: TransactionResult) -> Codes | Deferred[Codes]:
            if found.code is ErrorCode.NONE:
                found = TransactionResult(ErrorCode.TRANSACTION_ABORTABLE)
            return self.codes(found)

        return then_ask(asked, refuse)

    def _stage_alone(self, aborted: TransactionResult) -> Codes | Deferred[Codes]:
        """Stage the offsets if the older transactions over the same input partitions are
        aborted."""
        code = aborted.code
        if code is ErrorCode.NONE:
            try:
                return self._stage()
            except Refused as refused:
                code = refused.code
        elif code is ErrorCode.CONCURRENT_PRODUCER_COMMIT:
            self._log_refusal(Reason(FenceCause.CONCURRENT_COMMIT))
            if not self._request.transaction_group_id:
                code = ErrorCode.INVALID_PRODUCER_EPOCH
        return all_with(self._request.topics, code)

    def _stage(self) -> Codes | Deferred[Codes]:
        """Raises Refused."""
        asking = caller(self._services, self._context)

        def decide(shard: GroupShard) -> Decision[TxnOffsetCommitResponse]:
            decision = shard.txn_offset_commit(self._request, asking)
            # A refused request writes nothing.
            dismissal = None if decision.records else shard.dismissal(self._request)
            if dismissal is not None:
                self._log_refusal(reason_of(dismissal))
            return decision

        answer = self._services.groups.run(self._request.group_id, decide)
        return then(answer, lambda found: answered(found.topics))

    def _log_refusal(self, reason: Reason) -> None:
        """Log why the request is refused, although its producer is not fenced for good."""
        request = self._request
        self._services.transactions.refused_by_group(
            request.transactional_id,
            (request.producer_id, request.producer_epoch),
            reason,
            self._context,
        )
