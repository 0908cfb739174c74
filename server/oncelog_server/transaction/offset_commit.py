"""Commits offsets of a consumer group as part of a transaction. TxnOffsetCommit needs both the
transaction coordinator and the group coordinator (KIP-98, KIP-447, KIP-890)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from oncelog_server.coordinator.shard import Decision
from oncelog_server.deferred import Deferred, then_ask
from oncelog_server.group import moment
from oncelog_server.group.coordinator import GroupCoordinator
from oncelog_server.group.shard import GroupShard
from oncelog_server.refusal import Refused
from oncelog_server.transaction.caller import ClientRequest
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.coordinator import TransactionCoordinator
from oncelog_server.transaction.error_versions import code_for_version
from oncelog_server.transaction.fences import FenceCause, Reason
from oncelog_server.transaction.grouped.dismissals import reason_of
from oncelog_server.transaction.results import SUCCESS, TransactionResult

if TYPE_CHECKING:
    from oncelog_server.transaction.remote.other_coordinators import OtherCoordinators

# The response of the group coordinator, or one error code for all partitions.
TxnOffsetCommitResult = TxnOffsetCommitResponse | ErrorCode


class TransactionalCommit:
    """One TxnOffsetCommit. `asking` returns the caller and the present time, for the group
    coordinator. `add_partitions` adds the group's offsets partition to the transaction, which
    another broker may coordinate. `aborts_older`: first abort the transactions of older producers
    with the same input partitions (KIP-447, early draft). `others`: the coordinators of other
    brokers, None with a single broker."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        add_partitions: Callable[[AddPartitions], TransactionResult | Deferred[TransactionResult]],
        groups: GroupCoordinator,
        request: TxnOffsetCommitRequest,
        *,
        caller: ClientRequest,
        asking: Callable[[], moment.Caller],
        api_version: int,
        aborts_older: bool,
        others: OtherCoordinators | None = None,
    ) -> None:
        self._transactions = transactions
        self._add_partitions = add_partitions
        self._groups = groups
        self._request = request
        self._caller = caller
        self._asking = asking
        self._api_version = api_version
        self._aborts_older = aborts_older
        self._others = others
        self._adds = False

    def run(
        self, *, adds: bool, verifies: bool
    ) -> TxnOffsetCommitResult | Deferred[TxnOffsetCommitResult]:
        """Write the offsets as pending, after the checks of the transaction. `adds`: first add the
        group to the transaction (KIP-890 part 2). `verifies`: first verify that the transaction
        contains the group (part 1)."""
        self._adds = adds
        added: TransactionResult | Deferred[TransactionResult] = SUCCESS
        # `transaction_group_id` is oncelog's own field: the group with which the transactional id
        # was initialized. The transaction coordinator must check the generation of this group.
        if adds or verifies or self._request.transaction_group_id is not None:
            added = self._add_group(verify_only=not adds)
        try:
            return self._guarded(added, self._commit)
        except Refused as refused:
            return refused.code

    def _add_group(self, *, verify_only: bool) -> TransactionResult | Deferred[TransactionResult]:
        """Add the group's offsets partition to the transaction, or verify that the transaction
        contains it."""
        request = self._request
        try:
            return self._add_partitions(
                AddPartitions(
                    request.transactional_id,
                    request.producer_id,
                    request.producer_epoch,
                    frozenset({self._groups.offsets_partition(request.group_id)}),
                    client_transaction_version=2,
                    verify_only=verify_only,
                    group_id=request.transaction_group_id,
                    caller=self._caller,
                )
            )
        except Refused as refused:
            return TransactionResult(refused.code)

    def _commit(
        self, added: TransactionResult
    ) -> TxnOffsetCommitResult | Deferred[TxnOffsetCommitResult]:
        if added.code is not ErrorCode.NONE:
            return code_for_version(ApiKey.TXN_OFFSET_COMMIT, self._api_version, added.code)
        try:
            if self._aborts_older:
                others = self._groups.concurrent_producers(self._request)
                if others:
                    aborted = self._transactions.abort_older(others, self._caller)
                    return self._guarded(aborted, self._stage_alone)
            return self._stage()
        except Refused as refused:
            return refused.code

    def _guarded(
        self,
        result: TransactionResult | Deferred[TransactionResult],
        go_on: Callable[
            [TransactionResult], TxnOffsetCommitResult | Deferred[TxnOffsetCommitResult]
        ],
    ) -> TxnOffsetCommitResult | Deferred[TxnOffsetCommitResult]:
        """Return `go_on(result)`, which writes the offsets. While the result is pending, the
        transaction of this request may end. The offsets would then stay pending forever, because
        no marker would follow. So the request is refused in this case (scenario R12). Raises
        Refused if the group's partition is unavailable."""
        if not isinstance(result, Deferred):
            return go_on(result)
        group_id, producer_id = self._request.group_id, self._request.producer_id
        log = self._groups.log_of(group_id)
        guard = log.guards.begin(producer_id)

        def arrived(
            found: TransactionResult,
        ) -> TxnOffsetCommitResult | Deferred[TxnOffsetCommitResult]:
            try:
                # A partition that left this broker and came back is another object, without the
                # guard. A marker may have come in between.
                is_same_log = self._groups.log_of(group_id) is log
                is_held = is_same_log and log.guards.holds(producer_id, guard)
                if found.code is ErrorCode.NONE and not is_held:
                    return self._too_late()
                return go_on(found)
            except Refused as refused:
                return refused.code
            finally:
                log.guards.end(producer_id, guard)

        result.on_abandon(lambda: log.guards.end(producer_id, guard))
        return then_ask(result, arrived)

    def _too_late(self) -> TxnOffsetCommitResult | Deferred[TxnOffsetCommitResult]:
        """Return the response to a request for a transaction that has ended. The request is refused
        even if the producer has a new transaction with the same group (scenario R12).

        In that case, a request that adds the group gets a retriable code. It may belong to the new
        transaction, because the marker of the previous transaction may arrive while the coordinator
        decides. Only a client that still waits for the response retries, so the retry belongs to
        the client's present transaction. A request that only verifies cannot belong to the new
        transaction: it follows an AddOffsetsToTxn, which the coordinator accepts only after the
        markers of the previous transaction.
        """
        refusal = (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            if self._adds
            else ErrorCode.TRANSACTION_ABORTABLE
        )

        def refuse(
            found: TransactionResult,
        ) -> TxnOffsetCommitResult | Deferred[TxnOffsetCommitResult]:
            code = refusal if found.code is ErrorCode.NONE else found.code
            return code_for_version(ApiKey.TXN_OFFSET_COMMIT, self._api_version, code)

        return then_ask(self._add_group(verify_only=True), refuse)

    def _stage_alone(
        self, aborted: TransactionResult
    ) -> TxnOffsetCommitResult | Deferred[TxnOffsetCommitResult]:
        """Write the offsets if the abort of the older transactions has succeeded. Otherwise return
        the error code of the abort. A request that names no consumer group for its transactional id
        gets INVALID_PRODUCER_EPOCH in place of oncelog's own code CONCURRENT_PRODUCER_COMMIT."""
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
        return code

    def _stage(self) -> TxnOffsetCommitResult | Deferred[TxnOffsetCommitResult]:
        """Write the offsets as pending. Log the reason if the group refuses the request. Raises
        Refused."""
        asking = self._asking()

        def decide(shard: GroupShard) -> Decision[TxnOffsetCommitResponse]:
            decision = shard.txn_offset_commit(self._request, asking)
            # A decision without records refuses the request.
            dismissal = None if decision.records else shard.dismissal(self._request)
            if dismissal is not None:
                self._log_refusal(reason_of(dismissal))
            return decision

        staged = self._groups.run(self._request.group_id, decide)
        return cast("TxnOffsetCommitResult | Deferred[TxnOffsetCommitResult]", staged)

    def _log_refusal(self, reason: Reason) -> None:
        """Count and log the reason for which the group has refused the request. The
        producer may rejoin the group and continue."""
        request = self._request
        producer = request.producer_id, request.producer_epoch
        if self._others is not None:
            self._others.count_refused(
                request.transactional_id,
                request.transaction_group_id,
                producer,
                reason,
                self._caller,
            )
            return
        self._transactions.refused_by_group(
            request.transactional_id, producer, reason, self._caller
        )
