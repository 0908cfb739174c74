"""Step 0, planning: once a batch, in a Python process of the driver.

A process that has begun the generation goes on with it, as long as the batch that it planned last
is done and nobody has come since; otherwise it begins another one: fence, then read, then make the
generation durable. The fence comes before the read that counts: after it no older decision can
appear. Two processes of one driver may take turns, and a process may vanish: that costs another
generation, and nothing else.

The parent's transactions keep its epoch (EndTxn v4), so with A-group every batch begins with a new
one: a request of the batch before, or of OPEN, that the network still holds would otherwise be one
of this batch. A late TxnOffsetCommit would take the state back, a late EndTxn would commit the
state without the members.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from oncelog_client.values import TransactionMember

from .admission import admit
from .ids import generation_of
from .messages import CommitKind, Intent, Plan
from .refusals import Refusal, contended, decided_member_lost, outcome_unknown
from .state import SinkState
from .steps import (
    AbortOpen,
    Answer,
    Command,
    Done,
    Fence,
    Fenced,
    Generation,
    Look,
    MemberGone,
    Open,
    OutcomeUnknown,
    Outdated,
    Planned,
    Raised,
    RollForward,
    Step,
    Stored,
)

MOST_TAKEOVERS: Final = 40
# MOST_TAKEOVERS such steps stay far within a generation's 31 bits.
MOST_DOUBLINGS: Final = 20


class Phase(Enum):
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
    phase: Phase
    # What this process began before.
    begun: Generation | None = None
    # What it is beginning.
    number: int = 0
    parent: TransactionMember | None = None
    stored: SinkState | None = None
    open_ids: tuple[str, ...] = ()
    done: int = 0
    takeovers: int = 0
    # Fences refused one after the other.
    refused: int = 0


Next = tuple[Planning, Command | Planned | Raised]


def begin(intent: Intent, begun: Generation | None) -> Next:
    """`begun`: the generation that this process has of this sink."""
    return Planning(intent, Phase.READ, begun), Look(Step.PLAN_READ, stable=False)


def step(state: Planning, answer: Answer) -> Next:
    """Raises LookupError for an answer that does not belong to the command."""
    return _TABLE[state.phase, type(answer)](state, answer)


def _read(state: Planning, answer: Stored) -> Next:
    """Not fenced yet: what is read here may be old, but a batch that is done stays done, and a
    query that may not write must not fence the one that may."""
    stored, intent = answer.state, state.intent
    done = _admitted(intent, stored)
    if isinstance(done, Refusal):
        return state, Raised(done)
    if intent.batch_id is not None and intent.batch_id < done:
        # A batch write that is done. Nothing will be decided: no generation is needed.
        skipping = _plan(intent, stored, 0 if stored is None else stored.generation, None, done)
        return state, Planned(skipping, None)
    begun = state.begun
    if (
        begun is not None
        and stored is not None
        and stored.generation == begun.number
        # What was planned last is done, so nothing of it is on its way any more.
        and stored.offset > begun.planned
        and answer.unfinished is None
    ):
        state = replace(state, number=begun.number, parent=begun.parent)
        state = replace(state, stored=stored, open_ids=answer.open_ids, done=done)
        return _opened(state)
    newest = 0 if stored is None else stored.generation
    # Where generations are refused that the state does not know, it was lost: find the next one, in
    # growing steps. Small ones at first, as there are no more than 31 bits for the sink's life.
    step = 1 << min(state.refused, MOST_DOUBLINGS)
    return _fence(state, max(newest + 1, state.number + step - 1))


def _fence(state: Planning, number: int) -> Next:
    state = replace(state, phase=Phase.FENCE, number=number, begun=None)
    return state, Fence(Step.PLAN_FENCE, number)


def _fenced(state: Planning, answer: Fenced) -> Next:
    state = replace(state, phase=Phase.READ_AGAIN, parent=answer.parent, refused=0)
    return state, Look(Step.PLAN_READ_AGAIN, stable=True)


def _read_again(state: Planning, answer: Stored) -> Next:
    stored, intent = answer.state, state.intent
    if stored is not None and stored.generation >= state.number:
        # Two drivers guessed the same number, and the other one was quicker.
        return _taken_over(replace(state, number=stored.generation), stored.generation + 1)
    done = _admitted(intent, stored)
    if isinstance(done, Refusal):
        return state, Raised(done)
    state = replace(state, stored=stored, open_ids=answer.open_ids, done=done)
    unfinished = answer.unfinished
    if unfinished is not None:
        assert state.parent is not None
        roll_forward = RollForward(Step.PLAN_ROLL_FORWARD, state.parent, unfinished)
        return replace(state, phase=Phase.ROLL_FORWARD, stored=unfinished.state), roll_forward
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


def _rolled_forward(state: Planning, answer: Done) -> Next:
    """The batch is done now: who may follow is decided anew."""
    done = _admitted(state.intent, state.stored)
    if isinstance(done, Refusal):
        return state, Raised(done)
    return _open(replace(state, done=done))


def _open(state: Planning) -> Next:
    assert state.parent is not None
    stored, intent = state.stored, state.intent
    owner = None if stored is None else stored.query_id
    opened = SinkState(
        owner if intent.query_id is None else intent.query_id,
        state.number,
        state.done,
        0 if stored is None else stored.rows,
        # Kept also where a new query takes over: its source may still ask for it.
        None if stored is None else stored.source_end,
        is_end_too_long=stored is not None and stored.is_end_too_long,
        is_planner_known=intent.query_id is not None,
    )
    return (
        replace(state, phase=Phase.OPEN, stored=opened),
        Open(Step.PLAN_OPEN, state.parent, opened),
    )


def _done_opening(state: Planning, answer: Done) -> Next:
    return _opened(state)


def _opened(state: Planning) -> Next:
    if state.intent.kind is CommitKind.GROUP:
        return replace(state, phase=Phase.RENEW), Fence(Step.PLAN_RENEW, state.number)
    return _clean(state)


def _renewed(state: Planning, answer: Fenced) -> Next:
    return _clean(replace(state, parent=answer.parent))


def _clean(state: Planning) -> Next:
    """No task of this batch has begun: whatever is open belongs to nobody any more. Ids of newer
    generations are never touched."""
    left = tuple(
        one
        for one in state.open_ids
        if (number := generation_of(state.intent.sink_id, one)) is not None
        and number <= state.number
    )
    if left:
        state = replace(state, phase=Phase.JANITOR, open_ids=())
        return state, AbortOpen(Step.PLAN_JANITOR, state.number, left)
    return _planned(state)


def _janitor(state: Planning, answer: Done) -> Next:
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


def _outdated(state: Planning, answer: Outdated) -> Next:
    return _taken_over(state, None)


def _refused(state: Planning, answer: Outdated) -> Next:
    return _taken_over(replace(state, refused=state.refused + 1), None)


def _taken_over(state: Planning, number: int | None) -> Next:
    """Somebody else has begun a generation at the same time: another one, unless this goes on for
    too long."""
    state = replace(state, takeovers=state.takeovers + 1, begun=None)
    if state.takeovers > MOST_TAKEOVERS:
        return state, Raised(contended(state.intent.sink_id, state.takeovers))
    if number is not None:
        return _fence(state, number)
    return replace(state, phase=Phase.READ), Look(Step.PLAN_READ, stable=False)


def _lost(state: Planning, answer: MemberGone) -> Next:
    assert state.stored is not None
    batch = state.stored.last_batch
    lost = decided_member_lost(state.intent.sink_id, batch, answer.member, answer.detail)
    return state, Raised(lost)


def _unknown(state: Planning, answer: OutcomeUnknown) -> Next:
    return state, Raised(outcome_unknown(state.intent.sink_id, f"generation {state.number}"))


_TABLE: Final[dict[tuple[Phase, type[Answer]], Callable[..., Next]]] = {
    (Phase.READ, Stored): _read,
    (Phase.FENCE, Fenced): _fenced,
    (Phase.FENCE, Outdated): _refused,
    (Phase.READ_AGAIN, Stored): _read_again,
    (Phase.ROLL_FORWARD, Done): _rolled_forward,
    (Phase.ROLL_FORWARD, Outdated): _outdated,
    (Phase.ROLL_FORWARD, MemberGone): _lost,
    (Phase.ROLL_FORWARD, OutcomeUnknown): _unknown,
    (Phase.OPEN, Done): _done_opening,
    (Phase.OPEN, Outdated): _outdated,
    (Phase.OPEN, OutcomeUnknown): _unknown,
    (Phase.RENEW, Fenced): _renewed,
    (Phase.RENEW, Outdated): _outdated,
    (Phase.JANITOR, Done): _janitor,
    (Phase.JANITOR, Outdated): _outdated,
}
