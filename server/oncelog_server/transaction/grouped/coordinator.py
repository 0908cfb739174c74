"""The coordinator's commands for the transactions of consumer groups (KIP-447, early draft). They
move an id between shards, fence producers of older generations, and commit many transactions of a
group together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.runtime import ShardRuntime
from oncelog_server.deferred import Deferred, then, then_ask
from oncelog_server.refusal import Refused
from oncelog_server.transaction.caller import ClientRequest
from oncelog_server.transaction.commands.end_txn import EndTxn
from oncelog_server.transaction.commands.init_producer_id import (
    InitProducerId,
    decide_init_producer_id,
    refusal,
)
from oncelog_server.transaction.grouped.commit import decide_group_commit
from oncelog_server.transaction.grouped.init import (
    decide_init_in_group,
    decide_init_outside_group,
    refusal_in_group,
)
from oncelog_server.transaction.grouped.local_owners import LocalOwners
from oncelog_server.transaction.grouped.owners import Answer, Owners, is_open
from oncelog_server.transaction.grouped.restart import decide_start_over
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.shard import TransactionShard


class GroupTransactions:
    """The part of TransactionCoordinator for consumer groups. `owner` finds the shard of a
    transactional id or a group. `new_producer_id` returns an unused id of a principal, and
    `next_producer_id` the id that replaces an id after its last epoch. `owners` has the shards of
    the whole cluster, None if this broker has all shards."""

    def __init__(
        self,
        runtime: ShardRuntime[TransactionShard],
        *,
        owner: Callable[[str], tuple[int, TransactionShard]],
        new_producer_id: Callable[[str], int],
        next_producer_id: Callable[[int], int],
        wall_ms: Callable[[], int],
        owners: Owners | None = None,
    ) -> None:
        self._runtime = runtime
        self._owner = owner
        self._new_producer_id = new_producer_id
        self._next_producer_id = next_producer_id
        self._wall_ms = wall_ms
        self._owners: Owners = owners or LocalOwners(
            runtime,
            owner=owner,
            init_as_it_is=self.init_as_it_is,
            next_producer_id=next_producer_id,
            wall_ms=wall_ms,
        )

    # --- InitProducerId

    def init_producer_id(
        self, command: InitProducerId, membership: GroupAssignment | None, *, is_current: bool
    ) -> Answer:
        """Initialize an id within the group of `membership`. If `membership` is None, the id leaves
        its group, and is initialized without a group. First fence the id in every other shard that
        has the id, so that only one shard owns the id. `is_current`: the group coordinator has
        confirmed the generation. Raises Refused."""
        if command.by_operator:
            return self._owners.end_open(command)
        key = command.transactional_id if membership is None else membership.group_id
        index, shard = self._owner(key)
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
        not_now = self._owners.refusal(command, membership, index, shard)
        if not_now is not None:
            return not_now
        if membership is not None and starts_over:
            if command.keep_prepared and is_open(shard.get(command.transactional_id)):
                # Only this caller can end the kept transaction, and the group has to wait for that
                # end. So the id stays a member of the group.
                return self.init_as_it_is(index, shard, command)
            decision = decide_start_over(
                shard, membership.group_id, command.caller, wall_ms=self._wall_ms()
            )
            return self._runtime.run(index, decision)
        left = self._owners.leave(command, membership, index, shard)
        if isinstance(left, Deferred):
            again = partial(self._init_later, shard=shard, command=command, membership=membership)
            return then_ask(left, again)
        if left.code is not ErrorCode.NONE:
            return left
        return self._init(shard, command, membership)

    def _init_later(
        self,
        left: TransactionResult,
        shard: TransactionShard,
        command: InitProducerId,
        membership: GroupAssignment | None,
    ) -> Answer:
        if left.code is not ErrorCode.NONE:
            return left
        try:
            return self._init(shard, command, membership)
        except Refused as refused:
            return TransactionResult(refused.code)

    def init_as_it_is(self, index: int, shard: TransactionShard, command: InitProducerId) -> Answer:
        """Initialize the id. Its membership in a group does not change."""
        decision = decide_init_producer_id(
            shard,
            command,
            wall_ms=self._wall_ms(),
            new_producer_id=partial(self._new_producer_id, command.principal),
        )
        return self._runtime.run(index, decision)

    def _init(
        self, shard: TransactionShard, command: InitProducerId, membership: GroupAssignment | None
    ) -> Answer:
        """Initialize the id, which has left the other shards for `shard`. Raises Refused."""
        not_taken = partial(self._owners.not_taken, command.transactional_id, shard)

        def ended(result: TransactionResult) -> TransactionResult:
            if result.code is not ErrorCode.NONE:
                not_taken()
            return result

        try:
            result = self._init_here(command, membership)
        except Exception:
            not_taken()
            raise
        if isinstance(result, Deferred):
            result.on_abandon(not_taken)
        return then(result, ended)

    def _init_here(self, command: InitProducerId, membership: GroupAssignment | None) -> Answer:
        key = command.transactional_id if membership is None else membership.group_id
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
        worst result."""
        return self._owners.abort_older(producer_ids, caller)
