"""Transactions of consumer groups at this broker's coordinator: ids that move between coordinators,
fences across a group, many transactions decided at once (KIP-447, early draft; group commit)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.runtime import ShardRuntime
from oncelog_server.coordinator.shard import Decision
from oncelog_server.deferred import Deferred, gather, then, then_ask
from oncelog_server.refusal import Refused
from oncelog_server.transaction.caller import Caller
from oncelog_server.transaction.commands.end_txn import EndTxn
from oncelog_server.transaction.commands.init_producer_id import (
    InitProducerId,
    decide_init_producer_id,
    refusal,
)
from oncelog_server.transaction.grouped.commit import decide_group_commit
from oncelog_server.transaction.grouped.concurrent_commit import (
    decide_concurrent_commit,
    transactions_of,
)
from oncelog_server.transaction.grouped.groups import Membership
from oncelog_server.transaction.grouped.init import (
    decide_departure,
    decide_init_in_group,
    decide_init_outside_group,
    refusal_in_group,
)
from oncelog_server.transaction.grouped.restart import decide_start_over
from oncelog_server.transaction.metadata import NO_PRODUCER_ID
from oncelog_server.transaction.results import INVALID_STATE, SUCCESS, TransactionResult
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard
from oncelog_server.transaction.states import State

Answer = TransactionResult | Deferred[TransactionResult]

# Transactions whose markers are written in one turn of the loop.
FINISHED_PER_TURN: Final = 64


class GroupTransactions:
    """Part of a TransactionCoordinator. `owner` finds the shard of a transactional id or a group;
    `finish` writes the markers of a decided transaction."""

    def __init__(
        self,
        runtime: ShardRuntime[TransactionShard],
        *,
        owner: Callable[[str], tuple[int, TransactionShard]],
        finish: Callable[[int, TransactionShard, str], None],
        new_producer_id: Callable[[], int],
        wall_ms: Callable[[], int],
        call_soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self._runtime = runtime
        self._owner = owner
        self._finish = finish
        self._new_producer_id = new_producer_id
        self._wall_ms = wall_ms
        self._call_soon = call_soon

    # --- InitProducerId

    def init_producer_id(
        self, command: InitProducerId, membership: Membership | None, *, is_current: bool
    ) -> Answer:
        """Within a group, or (None) of an id that is in one. First the id is fenced wherever else
        it has been used, so that it has one owner. `is_current`: the group's own coordinator says
        that this is its generation. Raises Refused."""
        if command.by_operator:
            return self._end_open(command)
        key = command.transactional_id if membership is None else membership.group_id
        index, shard = self._owner(key)
        if membership is not None:
            # Where the id would be without a group: that must not be unreadable just now. Led by
            # another broker it will have to be asked there, once there are several.
            self._owner(command.transactional_id)
        starts_over = (
            is_current
            and membership is not None
            and membership.generation_id < shard.groups.newest_generation(membership.group_id)
        )
        # First of all: a call that is refused fences nobody, wherever that is.
        if membership is None or starts_over:
            refused = refusal(shard, command)
        else:
            refused = refusal_in_group(shard, command, membership, wall_ms=self._wall_ms())
        if refused is not None:
            return refused
        if membership is not None and starts_over:
            if command.keep_prepared and _is_open(shard.get(command.transactional_id)):
                # Nobody else can end it, and the group has to wait for that. It stays a member of
                # the group as it was.
                return self._init_as_it_is(index, shard, command)
            decision, ids = decide_start_over(
                shard, membership.group_id, command.caller, wall_ms=self._wall_ms()
            )
            return self._run(index, shard, decision, ids)
        if command.producer_id != NO_PRODUCER_ID and not _is_here(shard, command.transactional_id):
            for _, one in self._elsewhere(command.transactional_id, index):
                # A producer of the time before the id moved away asks for its next epoch.
                live = one.transactions[command.transactional_id]
                return one.refuse(live, command.producer_id, command.producer_epoch)
        if command.keep_prepared and any(
            _is_open(one.get(command.transactional_id))
            for _, one in self._elsewhere(command.transactional_id, index)
        ):
            # Only its own coordinator can keep it: of the group it was begun with, or of none.
            return INVALID_STATE
        departed = self._depart(command, index)

        def go_on(result: TransactionResult) -> Answer:
            if result.code is not ErrorCode.NONE:
                return result
            try:
                return self._init(key, command, membership)
            except Refused as refused:
                return TransactionResult(refused.code)

        return then_ask(departed, go_on)

    def _end_open(self, command: InitProducerId) -> Answer:
        """By an operator, where the id lives: it stays in its group."""
        for index, shard in self._runtime.shards():
            if _is_here(shard, command.transactional_id):
                return self._init_as_it_is(index, shard, command)
        raise Refused(ErrorCode.NOT_COORDINATOR)

    def _init_as_it_is(
        self, index: int, shard: TransactionShard, command: InitProducerId
    ) -> Answer:
        """Whether it is in a group or not stays as it is."""
        decision = decide_init_producer_id(
            shard, command, wall_ms=self._wall_ms(), new_producer_id=self._new_producer_id
        )
        return self._run(index, shard, decision, [command.transactional_id])

    def _depart(self, command: InitProducerId, to: int) -> Answer:
        """From every shard but the one it goes to."""
        transactional_id = command.transactional_id
        answer: Answer = TransactionResult(ErrorCode.NONE)
        for index, shard in self._elsewhere(transactional_id, to):
            decision = decide_departure(
                shard, transactional_id, command.caller, wall_ms=self._wall_ms()
            )
            one = self._run(index, shard, decision, [transactional_id])
            # More than one: an id that went from group to group. They are dealt with one by one.
            if isinstance(one, Deferred) or one.code is not ErrorCode.NONE:
                answer = one
        return answer

    def _elsewhere(
        self, transactional_id: str, here: int
    ) -> Iterator[tuple[int, TransactionShard]]:
        """Other shards that have the id."""
        for index, shard in self._runtime.shards():
            if index != here and _is_here(shard, transactional_id):
                yield index, shard

    def _init(self, key: str, command: InitProducerId, membership: Membership | None) -> Answer:
        index, shard = self._owner(key)
        ids = [command.transactional_id]
        if membership is None:
            decision = decide_init_outside_group(
                shard, command, wall_ms=self._wall_ms(), new_producer_id=self._new_producer_id
            )
        else:
            decision, ids = decide_init_in_group(
                shard,
                command,
                membership,
                wall_ms=self._wall_ms(),
                new_producer_id=self._new_producer_id,
            )
        return self._run(index, shard, decision, ids)

    # --- EndTxn

    def end_txn(self, index: int, shard: TransactionShard, command: EndTxn) -> Answer:
        """Decide a transaction and its members together."""
        decision = decide_group_commit(
            shard, command, wall_ms=self._wall_ms(), new_producer_id=self._new_producer_id
        )
        # The id that waits for its answer comes last: then all of it is visible.
        ids = [member.transactional_id for member in command.members]
        return self._run(index, shard, decision, [*ids, command.transactional_id])

    # --- offsets of one input partition by two producers

    def abort_older(self, producer_ids: frozenset[int], caller: Caller | None) -> Answer:
        """Abort what these have open; the worst of the answers (see `concurrent_commit`). One that
        has nothing open here has been decided before, or is another broker's."""
        answers = []
        for index, shard in self._runtime.shards():
            for live in transactions_of(shard, producer_ids):
                decision = decide_concurrent_commit(
                    shard,
                    live,
                    caller,
                    wall_ms=self._wall_ms(),
                    new_producer_id=self._new_producer_id,
                )
                answers.append(self._run(index, shard, decision, [live.metadata.transactional_id]))
        return then(gather(answers), _worst)

    # --- running

    def _run(
        self,
        index: int,
        shard: TransactionShard,
        decision: Decision[TransactionResult],
        ids: Sequence[str],
    ) -> Answer:
        if not decision.records:
            return decision.response
        return self._runtime.run(index, decision, lambda: self._finish_all(index, shard, ids))

    def _finish_all(self, index: int, shard: TransactionShard, ids: Sequence[str]) -> None:
        for transactional_id in ids[:FINISHED_PER_TURN]:
            self._finish(index, shard, transactional_id)
        if len(ids) > FINISHED_PER_TURN:
            self._call_soon(lambda: self._finish_rest(index, shard, ids[FINISHED_PER_TURN:]))

    def _finish_rest(self, index: int, shard: TransactionShard, ids: Sequence[str]) -> None:
        if self._runtime.is_in_service(index, shard):
            self._finish_all(index, shard, ids)


def _worst(results: list[TransactionResult]) -> TransactionResult:
    refused = [result for result in results if result.code is not ErrorCode.NONE]
    final = [one for one in refused if one.code is not ErrorCode.CONCURRENT_TRANSACTIONS]
    return next(iter((*final, *refused)), SUCCESS)


def _is_open(live: LiveTransaction | None) -> bool:
    """Whether a transaction is open and not being decided."""
    return live is not None and live.pending is None and live.metadata.state is State.ONGOING


def _is_here(shard: TransactionShard, transactional_id: str) -> bool:
    live = shard.get(transactional_id)
    return live is not None and live.metadata.state is not State.DEAD
