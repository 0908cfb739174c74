"""The former owners of a transactional id on a single broker, which has all shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.runtime import ShardRuntime
from oncelog_server.deferred import gather, then
from oncelog_server.refusal import Refused
from oncelog_server.transaction.caller import ClientRequest
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.decisions import refuse
from oncelog_server.transaction.grouped.aborting import abort_producers
from oncelog_server.transaction.grouped.init import decide_departure
from oncelog_server.transaction.grouped.owners import Answer, belongs, is_here, is_open, worst
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.metadata import NO_PRODUCER_ID
from oncelog_server.transaction.results import INVALID_STATE, TransactionResult
from oncelog_server.transaction.shard import TransactionShard


class LocalOwners:
    """Searches the shards of this broker. `owner` finds the shard of a transactional id or a group.
    `init_as_it_is(index, shard, command)` initializes an id without a change of its group."""

    def __init__(
        self,
        runtime: ShardRuntime[TransactionShard],
        *,
        owner: Callable[[str], tuple[int, TransactionShard]],
        init_as_it_is: Callable[[int, TransactionShard, InitProducerId], Answer],
        next_producer_id: Callable[[int], int],
        wall_ms: Callable[[], int],
    ) -> None:
        self._runtime = runtime
        self._owner = owner
        self._init_as_it_is = init_as_it_is
        self._next_producer_id = next_producer_id
        self._wall_ms = wall_ms

    def refusal(
        self,
        command: InitProducerId,
        membership: GroupAssignment | None,
        index: int,
        shard: TransactionShard,
    ) -> TransactionResult | None:
        own_id = command.transactional_id
        if membership is not None:
            self._owner(own_id)  # the shard that has the id outside of a group must be available
        if command.keep_prepared and any(
            is_open(other.get(own_id)) for _, other in self._left(own_id, index, shard, membership)
        ):
            # Only the coordinator that has the transaction can keep the transaction open. This is
            # the coordinator of the group, or that of the id if the id has no group.
            return INVALID_STATE
        return None

    def leave(
        self,
        command: InitProducerId,
        membership: GroupAssignment | None,
        index: int,
        shard: TransactionShard,
    ) -> Answer:
        own_id = command.transactional_id
        if command.producer_id != NO_PRODUCER_ID and not belongs(shard, own_id, membership):
            for other_index, other in self._left(own_id, index, shard, membership):
                # The caller requests the next epoch, but the id belongs to another group, or to no
                # group.
                live = other.transactions[own_id]
                decision = refuse(live, command.producer_id, command.producer_epoch)
                return self._runtime.run(other_index, decision)
        answers = []
        for other_index, other in self._elsewhere(own_id, index):
            departure = decide_departure(other, own_id, command.caller, wall_ms=self._wall_ms())
            answers.append(self._runtime.run(other_index, departure))
        return then(gather(answers), worst)

    def end_open(self, command: InitProducerId) -> Answer:
        for index, shard in self._runtime.shards():
            if is_here(shard, command.transactional_id):
                return self._init_as_it_is(index, shard, command)
        raise Refused(ErrorCode.NOT_COORDINATOR)

    def abort_older(self, producer_ids: frozenset[int], caller: ClientRequest | None) -> Answer:
        return abort_producers(
            self._runtime,
            self._runtime.shards(),
            producer_ids,
            caller,
            wall_ms=self._wall_ms(),
            next_producer_id=self._next_producer_id,
        )

    def not_taken(self, transactional_id: str, shard: TransactionShard) -> None:
        pass  # a search remembers no claims

    def are_pointed(self) -> bool:
        return True  # a search needs no pointers

    def expire_pointers(self, before_ms: int) -> None:
        pass  # there are no pointers

    def _elsewhere(
        self, transactional_id: str, here: int
    ) -> Iterator[tuple[int, TransactionShard]]:
        """Yield the other shards that have the id."""
        for index, shard in self._runtime.shards():
            if index != here and is_here(shard, transactional_id):
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
        if is_here(shard, transactional_id) and not belongs(shard, transactional_id, membership):
            yield index, shard
        yield from self._elsewhere(transactional_id, index)
