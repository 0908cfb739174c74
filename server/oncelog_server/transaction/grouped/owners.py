"""The shards that have a transactional id besides the shard of its new owner. They may be on this
broker (`local_owners.py`), or on other brokers (`remote/owners.py`)."""

from __future__ import annotations

from typing import Protocol

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.transaction.caller import ClientRequest
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.results import SUCCESS, TransactionResult
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard
from oncelog_server.transaction.states import State

Answer = TransactionResult | Deferred[TransactionResult]


class Owners(Protocol):
    """Lets an id leave the shards of its former owners, so that one shard has it."""

    def refusal(
        self,
        command: InitProducerId,
        membership: GroupAssignment | None,
        index: int,
        shard: TransactionShard,
    ) -> TransactionResult | None:
        """Return the result that refuses the call before any producer is fenced. Return None if the
        call is allowed, or if other shards decide. Raises Refused."""
        ...

    def leave(
        self,
        command: InitProducerId,
        membership: GroupAssignment | None,
        index: int,
        shard: TransactionShard,
    ) -> Answer:
        """Fence the id in every shard except its new shard: `shard`, with the number `index`.
        Return SUCCESS once no other shard has the id. Raises Refused."""
        ...

    def end_open(self, command: InitProducerId) -> Answer:
        """End the open transaction for an operator, in the shard that has the id. The id stays in
        its group. Raises Refused."""
        ...

    def abort_older(self, producer_ids: frozenset[int], caller: ClientRequest | None) -> Answer:
        """Abort the open transactions of these producers, in all shards of the cluster. Return the
        worst result."""
        ...

    def not_taken(self, transactional_id: str, shard: TransactionShard) -> None:
        """Forget that `shard` was about to take the id. Do nothing if the shard has the id."""
        ...

    def are_pointed(self) -> bool:
        """Return False while an id of a group in a shard of this broker may lack its pointer.
        Another shard could then take the id too."""
        ...

    def expire_pointers(self, before_ms: int) -> None:
        """Remove pointers that were written before `before_ms` (wall clock), if their groups do not
        have the ids any more. This takes several turns of the loop."""
        ...


def worst(results: list[TransactionResult]) -> TransactionResult:
    """Return the first error, CONCURRENT_TRANSACTIONS only if there is no other error. Return
    SUCCESS without an error."""
    refused = [result for result in results if result.code is not ErrorCode.NONE]
    final = [result for result in refused if result.code is not ErrorCode.CONCURRENT_TRANSACTIONS]
    return next(iter((*final, *refused)), SUCCESS)


def is_open(live: LiveTransaction | None) -> bool:
    """Return True if a transaction is open and no decision is pending."""
    return live is not None and live.pending is None and live.metadata.state is State.ONGOING


def is_here(shard: TransactionShard, transactional_id: str) -> bool:
    """Return True if the shard has the id."""
    live = shard.get(transactional_id)
    return live is not None and live.metadata.state is not State.DEAD


def belongs(
    shard: TransactionShard, transactional_id: str, membership: GroupAssignment | None
) -> bool:
    """Return True if the shard has the id in the group of `membership`, or without a group."""
    group_id = None if membership is None else membership.group_id
    return is_here(shard, transactional_id) and shard.group_of(transactional_id) == group_id
