"""Serves the calls between coordinators on this broker. The table has a function for each
operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.coordinator_call import (
    CoordinatorCall,
    CoordinatorCallResult,
    Operation,
)
from oncelog_protocol.messages.describe_transactions import TransactionState
from oncelog_server.deferred import Deferred, then
from oncelog_server.group.coordinator import GroupCoordinator
from oncelog_server.refusal import Refused
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.commands.init_producer_id import (
    InitProducerId,
    decide_init_producer_id,
)
from oncelog_server.transaction.coordinator import TransactionCoordinator
from oncelog_server.transaction.described import to_row, to_topics
from oncelog_server.transaction.fences import FenceCause, Reason
from oncelog_server.transaction.grouped.aborting import abort_producers
from oncelog_server.transaction.grouped.concurrent_commit import transactions_of
from oncelog_server.transaction.grouped.dismissals import reason_of
from oncelog_server.transaction.grouped.owners import is_here
from oncelog_server.transaction.operator_markers import markers_of
from oncelog_server.transaction.pointers import NO_POINTER
from oncelog_server.transaction.remote.calls import (
    Called,
    client_in,
    from_result,
    to_clients,
)
from oncelog_server.transaction.remote.claims import decide_claim, decide_departure_from
from oncelog_server.transaction.remote.pending_claims import PendingClaims
from oncelog_server.transaction.results import BUSY, SUCCESS, TransactionResult
from oncelog_server.transaction.shard import TransactionShard
from oncelog_server.transaction.views import details_of


class CoordinatorOperations:
    """Serves the shards of the two coordinators of this broker. `claims` has the claims of this
    broker that are in flight."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        groups: GroupCoordinator,
        claims: PendingClaims,
        *,
        wall_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._transactions = transactions
        self._groups = groups
        self._claims = claims
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms

    def table(self) -> Mapping[Operation, Callable[[CoordinatorCall], Called]]:
        """Return the function of each operation."""
        return {operation: partial(serve, self) for operation, serve in OPERATIONS.items()}

    def claim(self, call: CoordinatorCall) -> Called:
        """Let a group take an id, or return the group that has it."""
        index, shard = self._transactions.owner(call.key)
        group_id = _group_of(call)
        pointers = shard.pointers
        pointer = pointers.get(call.key)
        if pointer is not None:
            if pointer.group_id != group_id and pointer.offset != call.pointer_offset:
                return _located(shard, pointer.group_id, pointer.offset)
        elif is_here(shard, call.key) and shard.group_of(call.key) not in (None, group_id):
            return _located(shard, shard.group_of(call.key), NO_POINTER)
        decision = decide_claim(
            shard,
            call.key,
            group_id,
            producer=(call.producer_id, call.producer_epoch),
            keep_prepared=call.keep_prepared,
            caller=client_in(call.caller),
            wall_ms=self._wall_ms(),
        )

        def claimed(result: TransactionResult) -> CoordinatorCallResult:
            found = pointers.get(call.key)
            if result.code is not ErrorCode.NONE or found is None:
                return from_result(result, shard.coordinator_epoch)
            return _located(shard, found.group_id, found.offset)

        return then(self._transactions.runtime.run(index, decision), claimed)

    def depart(self, call: CoordinatorCall) -> Called:
        """Let an id leave its group. `group_id` of the result is the group if the id stays."""
        group_id = _group_of(call)
        index, shard = self._transactions.owner(group_id)
        if call.only_if_absent and is_here(shard, call.key):
            return _located(shard, group_id, NO_POINTER)
        if NO_POINTER < call.pointer_offset < shard.pointers.claim_of(call.key):
            # The id has left the group and come back since the caller has read the pointer.
            return from_result(BUSY, shard.coordinator_epoch)
        # A claim of the group may be in flight, and its response may have arrived already. The
        # claim must not take the id after this call.
        self._claims.withdraw(call.key, group_id)
        decision = decide_departure_from(
            shard,
            call.key,
            group_id,
            producer=(call.producer_id, call.producer_epoch),
            keep_prepared=call.keep_prepared,
            caller=client_in(call.caller),
            wall_ms=self._wall_ms(),
        )
        return _called(shard, self._transactions.runtime.run(index, decision))

    def live_generation(self, call: CoordinatorCall) -> Called:
        """Return the generation of a group, and the reason for which the group refuses another
        generation."""
        generation_id, epoch = self._groups.generation_here(call.key)
        if generation_id is None:
            return CoordinatorCallResult(coordinator_epoch=epoch)
        result = CoordinatorCallResult(coordinator_epoch=epoch, generation_id=generation_id)
        if generation_id != call.generation_id:
            reason = reason_of(self._groups.outdated(call.key, call.generation_id))
            result.cause = reason.cause.name
            result.at_ms = -1 if reason.at_ms is None else reason.at_ms
            result.caused_by = to_clients(reason.by)
        return result

    def abort_older(self, call: CoordinatorCall) -> Called:
        """Abort the open transactions of some producers in one shard."""
        transactions = self._transactions
        shard = transactions.runtime.shard(call.partition)
        aborted = abort_producers(
            transactions.runtime,
            [(call.partition, shard)],
            frozenset(call.producer_ids),
            client_in(call.caller),
            wall_ms=self._wall_ms(),
            next_producer_id=transactions.next_producer_id,
        )
        return _called(shard, aborted)

    def missing_markers(self, call: CoordinatorCall) -> Called:
        """Return the partitions that will get a marker of some producers from one shard."""
        shard = self._transactions.runtime.shard(call.partition)
        result = from_result(SUCCESS, shard.coordinator_epoch)
        result.transactions = [
            TransactionState(
                transactional_id=live.metadata.transactional_id,
                producer_id=live.metadata.producer_id,
                topics=to_topics(markers_of(live)),
            )
            for live in transactions_of(shard, frozenset(call.producer_ids))
        ]
        return result

    def refused(self, call: CoordinatorCall) -> Called:
        """Count and log a refused request."""
        try:
            cause = FenceCause[call.cause]
        except KeyError:  # of a newer release
            return CoordinatorCallResult(ErrorCode.UNSUPPORTED_VERSION)
        _, shard = self._transactions.owner(call.group_id or call.key)
        at_ms = None if call.at_ms < 0 else call.at_ms
        self._transactions.refused_by_group(
            call.key,
            (call.producer_id, call.producer_epoch),
            Reason(cause, client_in(call.caused_by), at_ms),
            client_in(call.caller) or Client("", ""),
        )
        return from_result(SUCCESS, shard.coordinator_epoch)

    def locate(self, call: CoordinatorCall) -> Called:
        """Return the state of an id in a group."""
        group_id = _group_of(call)
        _, shard = self._transactions.owner(group_id)
        live = shard.get(call.key)
        result = from_result(SUCCESS, shard.coordinator_epoch)
        if live is None or not live.is_listed or shard.group_of(call.key) != group_id:
            result.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        else:
            result.transactions = [to_row(details_of(live, now_ms=self._monotonic_ms()))]
        return result

    def end_open(self, call: CoordinatorCall) -> Called:
        """Abort the open transaction of an id in a group, for an operator."""
        group_id = _group_of(call)
        index, shard = self._transactions.owner(group_id)
        if not is_here(shard, call.key) or shard.group_of(call.key) != group_id:
            raise Refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        client = client_in(call.caller)
        command = InitProducerId(
            call.key,
            call.timeout_ms,
            call.producer_id,
            call.producer_epoch,
            caller=client,
            by_operator=True,
        )
        decision = decide_init_producer_id(
            shard,
            command,
            wall_ms=self._wall_ms(),
            new_producer_id=partial(self._transactions.new_producer_id, command.principal),
        )
        return _called(shard, self._transactions.runtime.run(index, decision))


def _called(
    shard: TransactionShard, result: TransactionResult | Deferred[TransactionResult]
) -> Called:
    return then(result, lambda done: from_result(done, shard.coordinator_epoch))


def _group_of(call: CoordinatorCall) -> str:
    """Return the group of a call. Raises Refused without one."""
    if call.group_id is None:
        raise Refused(ErrorCode.INVALID_REQUEST)
    return call.group_id


def _located(
    shard: TransactionShard, group_id: str | None, pointer_offset: int
) -> CoordinatorCallResult:
    """Return the result that names the group of an id."""
    return CoordinatorCallResult(
        coordinator_epoch=shard.coordinator_epoch,
        group_id=group_id,
        pointer_offset=pointer_offset,
    )


OPERATIONS: Final[
    Mapping[Operation, Callable[[CoordinatorOperations, CoordinatorCall], Called]]
] = {
    Operation.CLAIM: CoordinatorOperations.claim,
    Operation.DEPART: CoordinatorOperations.depart,
    Operation.LIVE_GENERATION: CoordinatorOperations.live_generation,
    Operation.ABORT_OLDER: CoordinatorOperations.abort_older,
    Operation.REFUSED: CoordinatorOperations.refused,
    Operation.LOCATE: CoordinatorOperations.locate,
    Operation.END_OPEN: CoordinatorOperations.end_open,
    Operation.MISSING_MARKERS: CoordinatorOperations.missing_markers,
}
