"""The former owners of a transactional id in a cluster: its own shard, which may point to a group,
and the shard of that group (`grouped/owners.py`)."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.coordinator_call import (
    CoordinatorCall,
    CoordinatorCallResult,
    Operation,
)
from oncelog_server.coordinator.runtime import Work
from oncelog_server.deferred import Deferred, gather, then, then_ask
from oncelog_server.refusal import Refused
from oncelog_server.transaction.caller import ClientRequest
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.coordinator import TransactionCoordinator
from oncelog_server.transaction.grouped.owners import Answer, belongs, is_here, worst
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.pointers import NO_POINTER
from oncelog_server.transaction.remote.calls import (
    Called,
    CoordinatorCalls,
    calls_about,
    to_clients,
    to_result,
)
from oncelog_server.transaction.remote.missing_pointers import MissingPointers
from oncelog_server.transaction.remote.pending_claims import PendingClaims
from oncelog_server.transaction.remote.pointer_expiry import PointerExpiry
from oncelog_server.transaction.results import BUSY, SUCCESS, TransactionResult
from oncelog_server.transaction.shard import TransactionShard


class PointedOwners:
    """Asks the shard of an id for the group that has the id. `transactions` is the coordinator of
    this broker, `shard_count` returns the number of shards of the cluster. `work` runs long work in
    slices."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        calls: CoordinatorCalls,
        claims: PendingClaims,
        shard_count: Callable[[], int],
        wall_ms: Callable[[], int],
        work: Work,
    ) -> None:
        self._transactions = transactions
        self._calls = calls
        self._claims = claims
        self._shard_count = shard_count
        self._missing = MissingPointers(transactions, work, wall_ms, shard_count)
        self._expiry = PointerExpiry(transactions, self._ask, work)

    def refusal(
        self,
        command: InitProducerId,
        membership: GroupAssignment | None,
        index: int,
        shard: TransactionShard,
    ) -> TransactionResult | None:
        return None  # the other shards decide

    def leave(
        self,
        command: InitProducerId,
        membership: GroupAssignment | None,
        index: int,
        shard: TransactionShard,
    ) -> Answer:
        if membership is None:
            return self._leave_group(command, index, shard)
        if belongs(shard, command.transactional_id, membership):
            # A group loses an id only by a departure, so no other shard has the id.
            return SUCCESS
        return self._claim(command, membership.group_id, index, shard)

    # --- to no group

    def _leave_group(self, command: InitProducerId, index: int, shard: TransactionShard) -> Answer:
        """Let the id depart from the group of its pointer. `shard` is that of the id."""
        own_id = command.transactional_id
        pointers = shard.pointers
        if pointers.is_pending(own_id):
            return BUSY
        pointer = pointers.get(own_id)
        if pointer is None:
            return SUCCESS

        def departed(result: TransactionResult) -> TransactionResult:
            if result.code is not ErrorCode.NONE:
                return result
            is_same = (
                self._transactions.runtime.is_in_service(index, shard)
                and not pointers.is_pending(own_id)
                and pointers.get(own_id) == pointer
            )
            # A group may have claimed the id meanwhile.
            return SUCCESS if is_same else BUSY

        return then(self._depart(command, pointer.group_id, pointer.offset), departed)

    def _depart(self, command: InitProducerId, group_id: str, pointer_offset: int) -> Answer:
        call = CoordinatorCall(
            Operation.DEPART,
            command.transactional_id,
            group_id,
            pointer_offset=pointer_offset,
            producer_id=command.producer_id,
            producer_epoch=command.producer_epoch,
            keep_prepared=command.keep_prepared,
            caller=to_clients(command.caller),
        )
        return then(self._ask(group_id, call), to_result)

    # --- to a group

    def _claim(
        self, command: InitProducerId, group_id: str, index: int, shard: TransactionShard
    ) -> Answer:
        """Claim the id for the group of `shard`. If another group has the id, let it depart, and
        claim it once more."""
        own_id = command.transactional_id
        claim = self._claims.begin(own_id, group_id)
        if claim is None:
            return BUSY

        def ended() -> None:
            # End only this claim. A departure may have withdrawn it, and another claim may have
            # begun since.
            self._claims.end(own_id, group_id, claim)

        def refused(result: TransactionResult) -> TransactionResult:
            ended()
            return result

        def claimed(result: CoordinatorCallResult, *, again: bool = False) -> Answer:
            if result.error_code != ErrorCode.NONE:
                return refused(to_result(result))
            holder = result.group_id
            if holder != group_id:
                if again or holder is None:
                    return refused(BUSY)
                departed = self._depart(command, holder, result.pointer_offset)
                return then_ask(departed, lambda done: left(done, result.pointer_offset))
            in_service = self._transactions.runtime.is_in_service(index, shard)
            if not self._claims.end(own_id, group_id, claim) or not in_service:
                return BUSY
            shard.pointers.note_claim(own_id, result.pointer_offset)
            return SUCCESS

        def left(result: TransactionResult, pointer_offset: int) -> Answer:
            if result.code is not ErrorCode.NONE:
                return refused(result)
            asked = self._ask(own_id, _claim_call(command, group_id, pointer_offset))
            return then_ask(asked, lambda second: claimed(second, again=True))

        try:
            asked = self._ask(own_id, _claim_call(command, group_id, NO_POINTER))
            answer = then_ask(asked, claimed)
        except Exception:
            ended()
            raise
        if isinstance(answer, Deferred):
            answer.on_abandon(ended)
        return answer

    # --- other calls

    def end_open(self, command: InitProducerId) -> Answer:
        own_id = command.transactional_id
        for index, shard in self._transactions.runtime.shards():
            if is_here(shard, own_id):
                return self._transactions.init_as_it_is(index, shard, command)
        _, shard = self._transactions.owner(own_id)
        pointer = shard.pointers.get(own_id)
        if pointer is None:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        call = CoordinatorCall(
            Operation.END_OPEN,
            own_id,
            pointer.group_id,
            producer_id=command.producer_id,
            producer_epoch=command.producer_epoch,
            timeout_ms=command.timeout_ms,
            caller=to_clients(command.caller),
        )
        return then(self._ask(pointer.group_id, call), to_result)

    def abort_older(self, producer_ids: frozenset[int], caller: ClientRequest | None) -> Answer:
        # Offsets name producers only by producer id, so each shard may have the transactions.
        calls = calls_about(Operation.ABORT_OLDER, producer_ids, self._shard_count(), caller)
        answers = [then(self._calls.ask(*call), to_result) for call in calls]
        return then(gather(answers), worst)

    def are_pointed(self) -> bool:
        # The ids of a shard that is not loaded are unknown, so their pointers may be missing.
        return not self._transactions.runtime.has_refused and self._missing.are_written()

    def expire_pointers(self, before_ms: int) -> None:
        self._expiry.sweep(before_ms)

    def not_taken(self, transactional_id: str, shard: TransactionShard) -> None:
        if not is_here(shard, transactional_id):
            shard.pointers.forget_claim(transactional_id)

    def _ask(self, key: str, call: CoordinatorCall) -> Called:
        """Ask the shard of a transactional id or a group."""
        return self._calls.ask(self._transactions.shard_of(key), call)


def _claim_call(command: InitProducerId, group_id: str, pointer_offset: int) -> CoordinatorCall:
    return CoordinatorCall(
        Operation.CLAIM,
        command.transactional_id,
        group_id,
        pointer_offset=pointer_offset,
        producer_id=command.producer_id,
        producer_epoch=command.producer_epoch,
        keep_prepared=command.keep_prepared,
        caller=to_clients(command.caller),
    )
