"""InitProducerId of a producer in a consumer group (KIP-447, early draft): whoever stands in the
way of its input partitions is aborted and fenced first; and how an id changes its coordinator."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import Decision
from oncelog_server.transaction.caller import Caller, client_of
from oncelog_server.transaction.commands.fencing import fence
from oncelog_server.transaction.commands.init_producer_id import (
    InitProducerId,
    decide_init_producer_id,
    refusal,
)
from oncelog_server.transaction.fences import FenceCause, Reason, taken_over_by
from oncelog_server.transaction.grouped.groups import Membership
from oncelog_server.transaction.grouped.refusals import newest_generation, refuse_call
from oncelog_server.transaction.grouped.together import decide_each, together
from oncelog_server.transaction.metadata import (
    LAST_PRODUCER_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_EPOCH,
)
from oncelog_server.transaction.results import BUSY, ILLEGAL_GENERATION, SUCCESS, TransactionResult
from oncelog_server.transaction.shard import LiveTransaction, TransactionShard
from oncelog_server.transaction.states import State


def decide_init_in_group(
    shard: TransactionShard,
    command: InitProducerId,
    membership: Membership,
    *,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> tuple[Decision[TransactionResult], list[str]]:
    """The decision, and the ids whose transactions it aborts: their markers are to be written.

    CONCURRENT_TRANSACTIONS until every transaction of the group that has one of the same input
    partitions is finished. Those of older generations are aborted at once, whatever their
    partitions: nobody can commit them any more, and readers would wait for their time-outs.
    """
    groups, own_id = shard.groups, command.transactional_id
    refused = refusal_in_group(shard, command, membership, wall_ms=wall_ms)
    if refused is not None:
        return Decision(refused), []
    # Before anything is decided: it may be that there is no record of it.
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
            return mine, []
    reason = Reason(FenceCause.NEWER_GENERATION, command.caller)
    # A participant in two-phase commit is only ended by whoever decides it (KIP-939).
    abortable = [
        live
        for live in (*conflicting, *to_abort)
        if not live.is_busy and not live.metadata.is_two_phase
    ]
    fences = decide_each(
        (
            fence(shard, live, BUSY, wall_ms=wall_ms, keep_owner=False, reason=reason)
            for live in abortable
            if live.metadata.state is State.ONGOING
        ),
        beside=[mine],
    )
    response = BUSY if conflicting else mine.response
    if not (registration or fences or mine.records):
        return Decision(response), []
    ids = [live.metadata.transactional_id for live in abortable]
    decision = together([*fences, mine], response, also=registration)
    idle = _left_behind(shard, own_id, membership) if registration else []
    if registration:
        decision = _expected(shard, decision, membership, command.caller, wall_ms)
    if mine.records:
        # Only then: where its markers are being written already, nobody may begin once more.
        ids.append(own_id)
    return _cutting_off(shard, decision, idle, reason, wall_ms), ids


def refusal_in_group(
    shard: TransactionShard, command: InitProducerId, membership: Membership, *, wall_ms: int
) -> TransactionResult | None:
    """Why the call will not be done, or not yet; None where it may be. To be asked before the id
    departs from where it was."""
    if membership.generation_id < shard.groups.newest_generation(membership.group_id):
        reason = newest_generation(shard, membership.group_id)
        refuse_call(shard, command, reason, wall_ms)
        return ILLEGAL_GENERATION
    if membership.generation_id < shard.groups.coming_generation(membership.group_id):
        # Let in now it would come after the newer one, and make the id an older member again.
        return BUSY
    return refusal(shard, command)


def _left_behind(
    shard: TransactionShard, own_id: str, membership: Membership
) -> list[LiveTransaction]:
    """Ids of older generations with nothing open, which were not left behind before."""
    found = []
    for other_id, other in shard.groups.others(membership, own_id):
        live = shard.get(other_id)
        if (
            live is not None
            and other.generation_id < membership.generation_id
            and live.metadata.state is not State.ONGOING
            and not shard.groups.is_outdated(other_id)
        ):
            found.append(live)
    return found


def _expected(
    shard: TransactionShard,
    decision: Decision[TransactionResult],
    membership: Membership,
    caller: Caller | None,
    wall_ms: int,
) -> Decision[TransactionResult]:
    """The decision, of whose generation the group knows until it has come, or will not."""
    settled = shard.groups.expect(membership)
    client = None if caller is None else client_of(caller)

    def on_committed() -> None:
        settled()
        shard.groups.note(membership, wall_ms, client)
        if decision.on_committed is not None:
            decision.on_committed()

    def on_failure(code: int) -> TransactionResult:
        settled()
        assert decision.on_failure is not None
        return decision.on_failure(code)

    return replace(decision, on_committed=on_committed, on_failure=on_failure)


def _cutting_off(
    shard: TransactionShard,
    decision: Decision[TransactionResult],
    lives: list[LiveTransaction],
    reason: Reason,
    wall_ms: int,
) -> Decision[TransactionResult]:
    """The decision, which once it is committed refuses these too."""
    if not lives:
        return decision
    cut_offs = [shard.cut_off(live, reason, wall_ms) for live in lives]

    def on_committed() -> None:
        if decision.on_committed is not None:
            decision.on_committed()
        for cut_off in cut_offs:
            cut_off()

    return replace(decision, on_committed=on_committed)


def _open_transactions(
    shard: TransactionShard, own_id: str, membership: Membership
) -> tuple[list[LiveTransaction], list[LiveTransaction]]:
    """Transactions of others in the group that are not finished: those that have one of the input
    partitions, and others of an older generation."""
    conflicting, to_abort = [], []
    for other_id, other in shard.groups.others(membership, own_id):
        live = shard.get(other_id)
        if live is None or not (live.is_busy or live.metadata.state is State.ONGOING):
            continue
        if other.partitions & membership.partitions:
            conflicting.append(live)
        elif other.generation_id < membership.generation_id:
            to_abort.append(live)
    return conflicting, to_abort


def decide_departure(
    shard: TransactionShard, transactional_id: str, caller: Caller | None, *, wall_ms: int
) -> Decision[TransactionResult]:
    """Another coordinator becomes the owner of the id: abort what is open here, then fence its
    producers for good. SUCCESS once nobody holds its epoch any more, until then
    CONCURRENT_TRANSACTIONS."""
    live = shard.get(transactional_id)
    if live is None or live.metadata.state is State.DEAD:
        return Decision(SUCCESS)
    if live.is_busy:
        return Decision(BUSY)
    reason = taken_over_by(caller)
    if live.metadata.state is State.ONGOING:
        return fence(shard, live, BUSY, wall_ms=wall_ms, keep_owner=False, reason=reason)
    gone = detach(shard, live, reason, wall_ms=wall_ms)
    return together([gone], SUCCESS, also=shard.groups.removal((transactional_id,)))


def detach(
    shard: TransactionShard, live: LiveTransaction, reason: Reason, *, wall_ms: int
) -> Decision[TransactionResult]:
    """Dead: the next epoch is nobody's, as that of an initialisation whose answer was never
    given. It may be the one after the last, which nobody has already where it ended what was
    open."""
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
    return replace(
        shard.decide(live, target, SUCCESS, TransactionResult),
        on_committed=shard.cut_off(live, reason, wall_ms),
    )


def decide_init_outside_group(
    shard: TransactionShard,
    command: InitProducerId,
    *,
    wall_ms: int,
    new_producer_id: Callable[[], int],
) -> Decision[TransactionResult]:
    """InitProducerId without a group, for an id that is in a group of this very shard: with the new
    epoch it leaves the group."""
    mine = decide_init_producer_id(shard, command, wall_ms=wall_ms, new_producer_id=new_producer_id)
    result = mine.response
    if not (isinstance(result, TransactionResult) and result.code is ErrorCode.NONE):
        return mine
    return together([mine], result, also=shard.groups.removal((command.transactional_id,)))
