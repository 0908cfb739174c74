"""The coordinator's commands for the transactions of consumer groups (KIP-447, early draft). They
move an id between shards, fence producers of older generations, and commit many transactions of a
group together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.runtime import ShardRuntime
from oncelog_server.deferred import Deferred, gather, then, then_ask
from oncelog_server.refusal import Refused
from oncelog_server.transaction.caller import ClientRequest
from oncelog_server.transaction.commands.end_txn import EndTxn
from oncelog_server.transaction.commands.init_producer_id import (
    InitProducerId,
    decide_init_producer_id,
    refusal,
)
from oncelog_server.transaction.decisions import refuse
from oncelog_server.transaction.grouped.commit import decide_group_commit
from oncelog_server.transaction.grouped.concurrent_commit import (
    decide_concurrent_commit,
    transactions_of,
)
from oncelog_server.transaction.grouped.init import (
    decide_departure,
    decide_init_in_group,
    decide_init_outside_group,
    refusal_in_group,
)
from oncelog_server.transaction.grouped.restart import decide_start_over
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.metadata import NO_PRODUCER_ID
from oncelog_server.transaction.results import INVALID_STATE, SUCCESS, TransactionResult
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard
from oncelog_server.transaction.states import State

Answer = TransactionResult | Deferred[TransactionResult]


class GroupTransactions:
    """The part of TransactionCoordinator for consumer groups. `owner` finds the shard of a
    transactional id or a group. `new_producer_id` returns an unused id of a principal, and
    `next_producer_id` the id that replaces an id after its last epoch."""

    def __init__(
        self,
        runtime: ShardRuntime[TransactionShard],
        *,
        owner: Callable[[str], tuple[int, TransactionShard]],
        new_producer_id: Callable[[str], int],
        next_producer_id: Callable[[int], int],
        wall_ms: Callable[[], int],
    ) -> None:
        self._runtime = runtime
        self._owner = owner
        self._new_producer_id = new_producer_id
        self._next_producer_id = next_producer_id
        self._wall_ms = wall_ms

    # --- InitProducerId

    def init_producer_id(
        self, command: InitProducerId, membership: GroupAssignment | None, *, is_current: bool
    ) -> Answer:
        """Initialize an id within the group of `membership`. If `membership` is None, the id leaves
        its group, and is initialized without a group. First fence the id in every other shard that
        has the id, so that only one shard owns the id. `is_current`: the group coordinator has
        confirmed the generation. Raises Refused."""
        if command.by_operator:
            return self._end_open(command)
        key = command.transactional_id if membership is None else membership.group_id
        index, shard = self._owner(key)
        if membership is not None:
            # This broker must also coordinate the shard that owns the id outside of a group. With
            # several brokers, a request to the coordinator of that shard will be needed.
            self._owner(command.transactional_id)
        starts_over = (
            is_current
            and membership is not None
            and membership.generation_id < shard.groups.newest_generation(membership.group_id)
        )
        # This check comes first, because a refused call must not fence a producer in any shard.
        if membership is None or starts_over:
            refused = refusal(shard, command)
        else:
            refused = refusal_in_group(shard, command, membership, wall_ms=self._wall_ms())
        if refused is not None:
            return self._runtime.run(index, refused)
        own_id = command.transactional_id
        left = list(self._left(own_id, index, shard, membership))
        if command.keep_prepared and any(_is_open(other.get(own_id)) for _, other in left):
            # Only the coordinator that has the transaction can keep the transaction open. This is
            # the coordinator of the group, or that of the id if the id has no group.
            return INVALID_STATE
        if membership is not None and starts_over:
            if command.keep_prepared and _is_open(shard.get(own_id)):
                # Only this caller can end the kept transaction, and the group has to wait for that
                # end. So the id stays a member of the group.
                return self._init_as_it_is(index, shard, command)
            decision = decide_start_over(
                shard, membership.group_id, command.caller, wall_ms=self._wall_ms()
            )
            return self._runtime.run(index, decision)
        if command.producer_id != NO_PRODUCER_ID and not _belongs(shard, own_id, membership):
            for other_index, other in left:
                # The caller requests the next epoch, but the id belongs to another group, or to no
                # group.
                live = other.transactions[own_id]
                decision = refuse(live, command.producer_id, command.producer_epoch)
                return self._runtime.run(other_index, decision)
        departed = self._depart(command, index)
        if isinstance(departed, Deferred):
            again = partial(self._init_later, key=key, command=command, membership=membership)
            return then_ask(departed, again)
        if departed.code is not ErrorCode.NONE:
            return departed
        return self._init(key, command, membership)

    def _init_later(
        self,
        departed: TransactionResult,
        key: str,
        command: InitProducerId,
        membership: GroupAssignment | None,
    ) -> Answer:
        if departed.code is not ErrorCode.NONE:
            return departed
        try:
            return self._init(key, command, membership)
        except Refused as refused:
            return TransactionResult(refused.code)

    def _end_open(self, command: InitProducerId) -> Answer:
        """End the open transaction for an operator, in the shard that has the id. The id stays in
        its group."""
        for index, shard in self._runtime.shards():
            if _is_here(shard, command.transactional_id):
                return self._init_as_it_is(index, shard, command)
        raise Refused(ErrorCode.NOT_COORDINATOR)

    def _init_as_it_is(
        self, index: int, shard: TransactionShard, command: InitProducerId
    ) -> Answer:
        """Initialize the id. Its membership in a group does not change."""
        decision = decide_init_producer_id(
            shard,
            command,
            wall_ms=self._wall_ms(),
            new_producer_id=partial(self._new_producer_id, command.principal),
        )
        return self._runtime.run(index, decision)

    def _depart(self, command: InitProducerId, to: int) -> Answer:
        """Fence the id in every shard except the new shard. Return the worst result, once all
        shards have responded."""
        transactional_id = command.transactional_id
        answers = []
        for index, shard in self._elsewhere(transactional_id, to):
            decision = decide_departure(
                shard, transactional_id, command.caller, wall_ms=self._wall_ms()
            )
            answers.append(self._runtime.run(index, decision))
        return then(gather(answers), _worst)

    def _elsewhere(
        self, transactional_id: str, here: int
    ) -> Iterator[tuple[int, TransactionShard]]:
        """Yield the other shards that have the id."""
        for index, shard in self._runtime.shards():
            if index != here and _is_here(shard, transactional_id):
                yield index, shard

    def _left(
        self,
        transactional_id: str,
        index: int,
        shard: TransactionShard,
        membership: GroupAssignment | None,
    ) -> Iterator[tuple[int, TransactionShard]]:
        """Yield the shards that the id leaves. `shard` itself may be among these shards, because
        different keys may have the same hash."""
        if _is_here(shard, transactional_id) and not _belongs(shard, transactional_id, membership):
            yield index, shard
        yield from self._elsewhere(transactional_id, index)

    def _init(
        self, key: str, command: InitProducerId, membership: GroupAssignment | None
    ) -> Answer:
        index, shard = self._owner(key)
        new_producer_id = partial(self._new_producer_id, command.principal)
        if membership is None:
            decision = decide_init_outside_group(
                shard, command, wall_ms=self._wall_ms(), new_producer_id=new_producer_id
            )
        else:
            decision = decide_init_in_group(
                shard,
                command,
                membership,
                wall_ms=self._wall_ms(),
                new_producer_id=new_producer_id,
            )
        return self._runtime.run(index, decision)

    # --- EndTxn

    def end_txn(self, shard: TransactionShard, command: EndTxn) -> Answer:
        """Decide a group commit: the caller's transaction together with those in `members`."""
        decision = decide_group_commit(
            shard, command, wall_ms=self._wall_ms(), next_producer_id=self._next_producer_id
        )
        return self._runtime.run(shard.index, decision)

    # --- two producers that commit offsets of the same input partition

    def abort_older(self, producer_ids: frozenset[int], caller: ClientRequest | None) -> Answer:
        """Abort the open transactions of these producers by `decide_concurrent_commit`. Return the
        worst result (see `_worst`). A producer without a transaction here has ended its
        transaction, or has another coordinator."""
        answers = []
        for index, shard in self._runtime.shards():
            for live in transactions_of(shard, producer_ids):
                decision = decide_concurrent_commit(
                    live,
                    caller,
                    wall_ms=self._wall_ms(),
                    new_producer_id=partial(self._next_producer_id, live.metadata.owner[0]),
                )
                answers.append(self._runtime.run(index, decision))
        return then(gather(answers), _worst)


def _worst(results: list[TransactionResult]) -> TransactionResult:
    """Return the first error, CONCURRENT_TRANSACTIONS only if there is no other error. Return
    SUCCESS without an error."""
    refused = [result for result in results if result.code is not ErrorCode.NONE]
    final = [result for result in refused if result.code is not ErrorCode.CONCURRENT_TRANSACTIONS]
    return next(iter((*final, *refused)), SUCCESS)


def _is_open(live: LiveTransaction | None) -> bool:
    """Return True if a transaction is open and no decision is pending."""
    return live is not None and live.pending is None and live.metadata.state is State.ONGOING


def _is_here(shard: TransactionShard, transactional_id: str) -> bool:
    live = shard.get(transactional_id)
    return live is not None and live.metadata.state is not State.DEAD


def _belongs(
    shard: TransactionShard, transactional_id: str, membership: GroupAssignment | None
) -> bool:
    """Return True if the shard has the id in the group of `membership`, or without a group."""
    group_id = None if membership is None else membership.group_id
    return _is_here(shard, transactional_id) and shard.group_of(transactional_id) == group_id
