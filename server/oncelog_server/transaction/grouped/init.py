"""Decides InitProducerId of a producer in a consumer group (KIP-447, early draft). The decision
first aborts and fences the producers of the same input partitions. This module also decides how an
id moves to another coordinator."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import Decision, Effect
from oncelog_server.deferred import Deferred
from oncelog_server.transaction.caller import ClientRequest, client_of
from oncelog_server.transaction.commands.fencing import fence
from oncelog_server.transaction.commands.init_producer_id import (
    InitProducerId,
    decide_init_producer_id,
    refusal,
)
from oncelog_server.transaction.decisions import change, fenced
from oncelog_server.transaction.effects import GenerationPending
from oncelog_server.transaction.fences import FenceCause, Reason, taken_over_by
from oncelog_server.transaction.grouped.refusals import newest_generation, refuse_call
from oncelog_server.transaction.grouped.together import together
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.metadata import (
    LAST_PRODUCER_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_EPOCH,
)
from oncelog_server.transaction.results import BUSY, SUCCESS, TransactionResult
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard
from oncelog_server.transaction.states import State


def decide_init_in_group(
    shard: TransactionShard,
    command: InitProducerId,
    membership: GroupAssignment,
    *,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> Decision[TransactionResult]:
    """Decide InitProducerId of a producer in a consumer group. Other ids of the group may have open
    transactions and share an input partition with the producer. First abort these transactions, and
    respond with CONCURRENT_TRANSACTIONS until they are complete. Also abort all other transactions
    of older generations, without waiting for their completion. No producer can commit them any
    more, and without an abort they would hold readers back until their timeouts."""
    groups, own_id = shard.groups, command.transactional_id
    refused = refusal_in_group(shard, command, membership, wall_ms=wall_ms)
    if refused is not None:
        return refused
    registration = groups.registration(own_id, membership)
    conflicting, to_abort = _open_transactions(shard, own_id, membership)
    own = shard.get(own_id)
    if conflicting and own is not None and own.metadata.state is not State.ONGOING:
        mine: Decision[TransactionResult] = Decision(BUSY)
    else:
        mine = decide_init_producer_id(
            shard, command, wall_ms=wall_ms, new_producer_id=new_producer_id
        )
        if not mine.records and mine.response != BUSY:
            return mine
    reason = Reason(FenceCause.NEWER_GENERATION, command.caller)
    # A transaction in a two-phase commit is not aborted, because an external coordinator decides
    # its outcome (KIP-939).
    aborts = [
        fence(live, BUSY, wall_ms=wall_ms, keep_owner=False, reason=reason)
        for live in (*conflicting, *to_abort)
        if not live.is_busy and not live.metadata.is_two_phase
    ]
    response = BUSY if conflicting else mine.response
    assert not isinstance(response, Deferred)
    if not (registration or aborts or mine.records):
        return Decision(response)
    effects: list[Effect] = []
    if registration:
        client = None if command.caller is None else client_of(command.caller)
        effects.append(GenerationPending(own_id, membership, wall_ms, client))
        idle = _left_behind(shard, own_id, membership)
        effects += [fenced(live, reason, wall_ms) for live in idle]
    return together([*aborts, mine], response, also=registration, effects=tuple(effects))


def refusal_in_group(
    shard: TransactionShard, command: InitProducerId, membership: GroupAssignment, *, wall_ms: int
) -> Decision[TransactionResult] | None:
    """Return the decision that refuses the call, or makes the caller retry it. Return None if the
    call is allowed. The check comes before the id leaves its previous shard."""
    if membership.generation_id < shard.groups.newest_generation(membership.group_id):
        reason = newest_generation(shard, membership.group_id)
        return refuse_call(shard, command, reason, wall_ms)
    if membership.generation_id < shard.groups.coming_generation(membership.group_id):
        # A record of a newer generation is pending. This request is not accepted now, because its
        # record would follow the pending record, but have an older generation.
        return Decision(BUSY)
    return refusal(shard, command)


def _left_behind(
    shard: TransactionShard, own_id: str, membership: GroupAssignment
) -> list[LiveTransaction]:
    """Return the group's other ids that belong to an older generation, have no open transaction and
    are not fenced yet. The first id of a generation fences them all, so there are none for the
    next ids."""
    groups, group_id = shard.groups, membership.group_id
    newest = groups.newest_generation(group_id)
    if membership.generation_id <= max(newest, groups.coming_generation(group_id)):
        return []
    found = []
    for other_id in groups.ids_of(group_id):
        live = shard.get(other_id)
        if (
            live is not None
            and other_id != own_id
            and live.metadata.state is not State.ONGOING
            and not groups.is_outdated(other_id)
        ):
            found.append(live)
    return found


def _open_transactions(
    shard: TransactionShard, own_id: str, membership: GroupAssignment
) -> tuple[list[LiveTransaction], list[LiveTransaction]]:
    """Return two lists of incomplete transactions of other ids in the group. Transactions in the
    first list have one of the input partitions of `membership`. Transactions in the second list
    have none of them, are of an older generation, and may be aborted."""
    if shard.unfinished is None:
        return [], []  # no group has ids
    conflicting = shard.unfinished.sharing_input(membership) - {own_id}
    to_abort = shard.unfinished.open_before(membership) - conflicting - {own_id}
    return (
        [shard.transactions[name] for name in sorted(conflicting)],
        [shard.transactions[name] for name in sorted(to_abort)],
    )


def decide_departure(
    shard: TransactionShard, transactional_id: str, caller: ClientRequest | None, *, wall_ms: int
) -> Decision[TransactionResult]:
    """Decide that the id leaves this shard, because another shard becomes its owner. First abort
    the open transaction here, then fence the producers for good. Respond with SUCCESS once no
    producer can have the id's epoch here. Respond with CONCURRENT_TRANSACTIONS until then."""
    live = shard.get(transactional_id)
    if live is None or live.metadata.state is State.DEAD:
        return Decision(SUCCESS)
    if live.is_busy:
        return Decision(BUSY)
    reason = taken_over_by(caller)
    if live.metadata.state is State.ONGOING:
        return fence(live, BUSY, wall_ms=wall_ms, keep_owner=False, reason=reason)
    gone = detach(live, reason, wall_ms=wall_ms)
    return together([gone], SUCCESS, also=shard.groups.removal((transactional_id,)))


def detach(live: LiveTransaction, reason: Reason, *, wall_ms: int) -> Decision[TransactionResult]:
    """Decide that the id is not used here any more. The epoch is bumped and no producer gets the
    new epoch, as if the response to an InitProducerId was lost. The new epoch may be the one after
    `LAST_PRODUCER_EPOCH`, which no producer can have."""
    target = replace(
        live.metadata,
        state=State.DEAD,
        producer_epoch=min(live.metadata.producer_epoch, LAST_PRODUCER_EPOCH) + 1,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        partitions=NO_PARTITIONS,
        decided_members=(),
        start_ms=-1,
        last_update_ms=wall_ms,
    )
    return change(target, SUCCESS, fenced(live, reason, wall_ms))


def decide_init_outside_group(
    shard: TransactionShard,
    command: InitProducerId,
    *,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> Decision[TransactionResult]:
    """Decide InitProducerId without a group. The decision also removes the id from its group in the
    same shard, or its pointer to a group."""
    mine = decide_init_producer_id(shard, command, wall_ms=wall_ms, new_producer_id=new_producer_id)
    result = mine.response
    if not (isinstance(result, TransactionResult) and result.code is ErrorCode.NONE):
        return mine
    own_id = command.transactional_id
    also = (*shard.groups.removal((own_id,)), *shard.pointer_removal(own_id))
    return together([mine], result, also=also)
