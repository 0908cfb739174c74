"""Step 0, planning: once for each batch, in a Python process of the driver.

A generation is the period in which one process of the driver plans the batches of a sink.
Generations are numbered, and a newer generation fences the older ones. A process continues its
generation, as long as its last planned batch is done and no newer generation exists. Otherwise the
process begins another generation: it fences the producers of older generations, reads the sink's
state, and stores the new generation in this state. After the fence, no decision of an older
generation can appear any more, so the state that is read then is final. Two processes of one driver
may take turns, and a process may end. The next process then begins another generation.

The parent is the driver's own producer, and the members are the transactions of the tasks. Below
transaction.version 2, the end of a transaction does not change the parent's epoch. From version 2
on, only the process that has ended the transaction knows the next epoch. So with a commit by group,
every batch begins with a new epoch of the parent. Otherwise a delayed request of the previous
batch, or of the transaction that stored the generation, would count for this batch: a late
TxnOffsetCommit would set the state back, and a late EndTxn would commit the state without the
members.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from oncelog_client.values import TransactionMember

from .admission import admit
from .ids import generation_of
from .messages import CommitKind, Intent, Plan
from .refusals import Refusal, contended, decided_member_lost, old_start, outcome_unknown
from .state import SinkState
from .steps import (
    AbortOpen,
    Command,
    Done,
    Fenced,
    FenceParent,
    Generation,
    Look,
    MemberGone,
    Open,
    OutcomeUnknown,
    Outdated,
    Planned,
    Raised,
    Result,
    RollForward,
    Step,
    Stored,
)

MOST_TAKEOVERS: Final = 40
# The maximum step of the search for a generation (`_read`) is 1 << MOST_DOUBLINGS. The number of a
# generation has 31 bits, and the sum of MOST_TAKEOVERS such steps is far below this limit.
MOST_DOUBLINGS: Final = 20


class PlanningPhase(Enum):
    READ = "read"
    FENCE = "fence"
    READ_AGAIN = "read again"
    ROLL_FORWARD = "roll forward"
    OPEN = "open"
    RENEW = "renew"
    JANITOR = "janitor"


@dataclass(frozen=True, slots=True)
class Planning:
    intent: Intent
    phase: PlanningPhase
    # The generation that this process has begun in an earlier planning, if there is one.
    begun: Generation | None = None
    # The generation that this process is beginning.
    number: int = 0
    parent: TransactionMember | None = None
    stored: SinkState | None = None
    open_ids: tuple[str, ...] = ()
    done: int = 0
    takeovers: int = 0
    # The number of consecutive refused fences.
    refused: int = 0


Next = tuple[Planning, Command | Planned | Raised]


def begin(intent: Intent, begun: Generation | None) -> Next:
    """Begin to plan. `begun`: the last generation of the sink that this process has begun, None if
    it has begun none."""
    return Planning(intent, PlanningPhase.READ, begun), Look(Step.PLAN_READ, stable=False)


def step(state: Planning, result: Result) -> Next:
    """Return the next state and command. Raises LookupError if `result` does not fit the
    command."""
    return _TABLE[state.phase, type(result)](state, result)


def _read(state: Planning, result: Stored) -> Next:
    """Check that the query may write to the sink, and choose the generation to continue or to
    begin. The state may be stale, but a batch that is done stays done. The check comes before the
    fence, because a query that may not write must not fence the query that may write."""
    stored, intent = result.state, state.intent
    done = _admitted(intent, stored)
    if isinstance(done, Refusal):
        return state, Raised(done)
    if intent.batch_id is not None and intent.batch_id < done:
        # A batch write that is done already commits nothing, so it needs no generation.
        skipping = _plan(intent, stored, 0 if stored is None else stored.generation, None, done)
        return state, Planned(skipping, None)
    begun = state.begun
    if (
        begun is not None
        and stored is not None
        and stored.generation == begun.number
        # The batch that was planned last is done, so no request of that batch is in flight.
        and stored.offset > begun.planned
        and result.unfinished is None
    ):
        state = replace(state, number=begun.number, parent=begun.parent)
        state = replace(state, stored=stored, open_ids=result.open_ids, done=done)
        refusal = _start_refusal(state)
        return _opened(state) if refusal is None else (state, Raised(refusal))
    newest = 0 if stored is None else stored.generation
    # If the brokers refuse a generation that is newer than the one in the state, the state was
    # lost. The search for a number that they accept then takes growing steps. The first steps are
    # small, because a generation has 31 bits.
    step = 1 << min(state.refused, MOST_DOUBLINGS)
    return _fence(state, max(newest + 1, state.number + step - 1))


def _fence(state: Planning, number: int) -> Next:
    state = replace(state, phase=PlanningPhase.FENCE, number=number, begun=None)
    return state, FenceParent(Step.PLAN_FENCE, number)


def _fenced(state: Planning, result: Fenced) -> Next:
    state = replace(state, phase=PlanningPhase.READ_AGAIN, parent=result.parent, refused=0)
    return state, Look(Step.PLAN_READ_AGAIN, stable=True)


def _read_again(state: Planning, result: Stored) -> Next:
    stored, intent = result.state, state.intent
    if stored is not None and stored.generation >= state.number:
        # Two drivers chose the same number, and the other driver was faster.
        return _taken_over(replace(state, number=stored.generation), stored.generation + 1)
    done = _admitted(intent, stored)
    if isinstance(done, Refusal):
        return state, Raised(done)
    state = replace(state, stored=stored, open_ids=result.open_ids, done=done)
    unfinished = result.unfinished
    if unfinished is not None:
        assert state.parent is not None
        roll_forward = RollForward(Step.PLAN_ROLL_FORWARD, state.parent, unfinished)
        return replace(
            state, phase=PlanningPhase.ROLL_FORWARD, stored=unfinished.state
        ), roll_forward
    return _open(state)


def _admitted(intent: Intent, stored: SinkState | None) -> int | Refusal:
    return admit(
        intent.sink_id,
        stored,
        intent.query_id,
        intent.number,
        intent.adopts,
        is_version=intent.is_version,
    )


def _rolled_forward(state: Planning, result: Done) -> Next:
    """Check again that the query may write, because the decided batch counts as done now."""
    done = _admitted(state.intent, state.stored)
    if isinstance(done, Refusal):
        return state, Raised(done)
    return _open(replace(state, done=done))


def _start_refusal(state: Planning) -> Refusal | None:
    """Return the refusal of a new query with sources that begin at the sink's source end, if this
    end is not the end in the state. The older query may commit a batch after the source of the new
    query has read the state, and before the fence. So only a state that is read after the fence, or
    at the end of the last planned batch, counts. The check is for batch 0 only: later the state has
    the ends of the new query itself."""
    stored, intent = state.stored, state.intent
    if stored is None or state.done:
        return None
    end = None if stored.source_end is None else json.loads(stored.source_end)
    for start in intent.sink_starts:
        if json.loads(start) != end:
            return old_start(intent.sink_id, stored, start)
    return None


def _open(state: Planning) -> Next:
    """Make the generation durable, if the new query begins at the end of the final state."""
    assert state.parent is not None
    refusal = _start_refusal(state)
    if refusal is not None:
        return state, Raised(refusal)
    stored, intent = state.stored, state.intent
    owner = None if stored is None else stored.query_id
    opened = SinkState(
        owner if intent.query_id is None else intent.query_id,
        state.number,
        state.done,
        0 if stored is None else stored.rows,
        # A new query keeps the last query's source end, because its source may begin there.
        None if stored is None else stored.source_end,
        is_end_too_long=stored is not None and stored.is_end_too_long,
        is_planner_known=intent.query_id is not None,
    )
    return (
        replace(state, phase=PlanningPhase.OPEN, stored=opened),
        Open(Step.PLAN_OPEN, state.parent, opened),
    )


def _done_opening(state: Planning, result: Done) -> Next:
    return _opened(state)


def _opened(state: Planning) -> Next:
    if state.intent.kind is CommitKind.GROUP:
        return replace(state, phase=PlanningPhase.RENEW), FenceParent(Step.PLAN_RENEW, state.number)
    return _clean(state)


def _renewed(state: Planning, result: Fenced) -> Next:
    return _clean(replace(state, parent=result.parent))


def _clean(state: Planning) -> Next:
    """Abort the open transactions. No open transaction is in use, because no task of this batch has
    begun. Ids of newer generations are never touched."""
    left = tuple(
        transactional_id
        for transactional_id in state.open_ids
        if (number := generation_of(state.intent.sink_id, transactional_id)) is not None
        and number <= state.number
    )
    if left:
        state = replace(state, phase=PlanningPhase.JANITOR, open_ids=())
        return state, AbortOpen(Step.PLAN_JANITOR, state.number, left)
    return _planned(state)


def _janitor(state: Planning, result: Done) -> Next:
    return _planned(state)


def _planned(state: Planning) -> Next:
    assert state.parent is not None
    assert state.stored is not None
    plan = _plan(state.intent, state.stored, state.number, state.parent, state.done)
    return state, Planned(plan, Generation(state.number, state.parent, state.stored.offset))


def _plan(
    intent: Intent,
    stored: SinkState | None,
    number: int,
    parent: TransactionMember | None,
    done: int,
) -> Plan:
    owner = None if stored is None else stored.query_id
    return Plan(
        intent.sink_id,
        intent.kind,
        number,
        parent,
        owner if intent.query_id is None else intent.query_id,
        done,
        intent.query_id,
        intent.batch_id,
        intent.adopts,
    )


def _outdated(state: Planning, result: Outdated) -> Next:
    return _taken_over(state, None)


def _refused(state: Planning, result: Outdated) -> Next:
    return _taken_over(replace(state, refused=state.refused + 1), None)


def _taken_over(state: Planning, number: int | None) -> Next:
    """Begin another generation, because another driver has begun a generation at the same time.
    After MOST_TAKEOVERS, end with an error."""
    state = replace(state, takeovers=state.takeovers + 1, begun=None)
    if state.takeovers > MOST_TAKEOVERS:
        return state, Raised(contended(state.intent.sink_id, state.takeovers))
    if number is not None:
        return _fence(state, number)
    return replace(state, phase=PlanningPhase.READ), Look(Step.PLAN_READ, stable=False)


def _lost(state: Planning, result: MemberGone) -> Next:
    assert state.stored is not None
    batch = state.stored.last_batch
    lost = decided_member_lost(state.intent.sink_id, batch, result.member, result.detail)
    return state, Raised(lost)


def _unknown(state: Planning, result: OutcomeUnknown) -> Next:
    return state, Raised(outcome_unknown(state.intent.sink_id, f"generation {state.number}"))


_TABLE: Final[dict[tuple[PlanningPhase, type[Result]], Callable[..., Next]]] = {
    (PlanningPhase.READ, Stored): _read,
    (PlanningPhase.FENCE, Fenced): _fenced,
    (PlanningPhase.FENCE, Outdated): _refused,
    (PlanningPhase.READ_AGAIN, Stored): _read_again,
    (PlanningPhase.ROLL_FORWARD, Done): _rolled_forward,
    (PlanningPhase.ROLL_FORWARD, Outdated): _outdated,
    (PlanningPhase.ROLL_FORWARD, MemberGone): _lost,
    (PlanningPhase.ROLL_FORWARD, OutcomeUnknown): _unknown,
    (PlanningPhase.OPEN, Done): _done_opening,
    (PlanningPhase.OPEN, Outdated): _outdated,
    (PlanningPhase.OPEN, OutcomeUnknown): _unknown,
    (PlanningPhase.RENEW, Fenced): _renewed,
    (PlanningPhase.RENEW, Outdated): _outdated,
    (PlanningPhase.JANITOR, Done): _janitor,
    (PlanningPhase.JANITOR, Outdated): _outdated,
}
