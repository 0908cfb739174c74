"""Step 2 of the sink's protocol: the commit. It runs in a Python process of the driver, which has
only the tasks' messages.

The commit reads the sink's state, and aborts the transactions of task attempts that no message
names. In a commit by group (`CommitKind.GROUP`), it puts the new state into the transaction of the
driver's own producer, the parent. Then it decides all members, the tasks' transactions, at once. If
the driver is fenced, or the transaction of a member has ended, nothing is committed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from .admission import admit
from .ids import generation_of
from .messages import CommitKind, Plan, TaskMessage
from .refusals import (
    Reason,
    Refusal,
    fenced,
    maybe_partial,
    member_gone,
    outcome_unknown,
    planned_otherwise,
    unknown_query,
)
from .state import SinkState
from .steps import (
    AbortOpen,
    Command,
    Decide,
    Done,
    Look,
    MaybePartial,
    MemberGone,
    OutcomeUnknown,
    Outdated,
    Raised,
    Result,
    Returned,
    Stage,
    Step,
    Stored,
)


class CommittingPhase(Enum):
    READ = "read"
    LOSERS = "losers"
    STAGE = "stage"
    DECIDE = "decide"
    ABORT = "abort"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Committing:
    """The state of a commit. `skips`: True if a task has found the batch done and written
    nothing. `refusal`: the reason for an abort."""

    phase: CommittingPhase
    decide: Decide | None = None
    plan: Plan | None = None
    stored: SinkState | None = None
    skips: bool = False
    refusal: Refusal | None = None


Next = tuple[Committing, Command | Returned | Raised]

_OVER: Final = Committing(CommittingPhase.OVER)


def begin(
    messages: Sequence[TaskMessage | None], batch_id: int | None, source_end: str | None = None
) -> Next:
    """Begin a commit. `messages`: one from each Spark partition. `batch_id`: None for a batch write
    that is not counted. `source_end`: the batch's source end, as JSON text."""
    known = [message for message in messages if message is not None]
    plans = {message.plan for message in known}
    queries = {message.query_id for message in known}
    if len(known) < len(messages) or len(plans) != 1 or len(queries) != 1:
        return _OVER, Raised(
            Refusal(
                Reason.BAD_MESSAGES,
                f"{len(messages)} partitions have {len(known)} messages, of {len(plans)} plans and"
                f" {len(queries)} queries. Each partition must have a message, and all messages"
                " must be of one plan and one query",
            )
        )
    plan, query_id = known[0].plan, known[0].query_id
    skips = any(message.skipped for message in known)
    if skips and (plan.is_version or not plan.is_kept):
        return _OVER, Returned(committed=False)
    members = tuple(message.member for message in known if message.member is not None)
    if not plan.is_kept:
        if not members:
            return _OVER, Returned(committed=False)
        # No state is kept, so the first member is the parent.
        decide = Decide(Step.COMMIT_DECIDE, members[0], members[1:], None)
        return Committing(CommittingPhase.READ, decide, plan), Look(Step.COMMIT_READ, stable=True)
    if query_id is None or batch_id is None:
        return _OVER, Raised(unknown_query(plan.sink_id))
    assert plan.parent is not None
    rows = sum(message.rows for message in known)
    state = SinkState(query_id, plan.generation, batch_id + 1, rows, source_end)
    decide = Decide(Step.COMMIT_DECIDE, plan.parent, members, state, batch_id)
    return Committing(CommittingPhase.READ, decide, plan, None, skips), Look(
        Step.COMMIT_READ, stable=True
    )


def step(state: Committing, result: Result) -> Next:
    """Return the next state and command. Raises LookupError if `result` does not fit the
    command."""
    return _TABLE[state.phase, type(result)](state, result)


def _read(state: Committing, result: Stored) -> Next:
    decide, plan, stored = state.decide, state.plan, result.state
    assert decide is not None
    assert plan is not None
    state = replace(state, stored=stored)
    losers = _losers(decide, plan, result.open_ids)
    if decide.state is None:
        return _end_losers(state, losers)
    query_id = decide.state.query_id
    done = admit(
        plan.sink_id, stored, query_id, decide.batch_id, plan.adopts, is_version=plan.is_version
    )
    if isinstance(done, Refusal):
        return state, Raised(done)
    assert decide.batch_id is not None
    if decide.batch_id < done:
        return state, _repeated(plan, stored, decide.batch_id, decide.state.source_end)
    # The state says that the batch is not done. If a task has skipped the batch as done, the state
    # was set back after that. Such a batch is never decided.
    is_driver = stored is not None and stored.generation == plan.generation and not state.skips
    if not is_driver or result.unfinished is not None:
        return state, Raised(fenced(plan, stored))
    return _end_losers(state, losers)


def _repeated(
    plan: Plan, stored: SinkState | None, batch_id: int, source_end: str | None
) -> Returned | Raised:
    """Return the outcome for a batch that is done. A stream repeats only the last batch, and the
    repeated batch must have the same source end. The end may differ if the checkpoint was restored
    from a copy."""
    if plan.is_version or stored is None or None in (stored.source_end, source_end):
        return Returned(committed=False)
    assert stored.source_end is not None
    assert source_end is not None
    if json.loads(stored.source_end) == json.loads(source_end):
        return Returned(committed=False)
    return Raised(planned_otherwise(plan.sink_id, stored, batch_id, source_end))


def _losers(decide: Decide, plan: Plan, open_ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return the losers: the open transactions of this generation that no task message names."""
    winners = {member.transactional_id for member in (decide.parent, *decide.members)}
    return tuple(
        transactional_id
        for transactional_id in open_ids
        if transactional_id not in winners
        and generation_of(plan.sink_id, transactional_id) == plan.generation
    )


def _end_losers(state: Committing, losers: tuple[str, ...]) -> Next:
    """Abort the losers before the decision. Losers hold back the last stable offset in some of the
    batch's partitions. If they stayed open, readers would see a part of the batch."""
    assert state.plan is not None
    if not losers:
        return _cleared(state)
    abort = AbortOpen(Step.COMMIT_LOSERS, state.plan.generation, losers)
    return replace(state, phase=CommittingPhase.LOSERS), abort


def _lost(state: Committing, result: Done) -> Next:
    return _cleared(state)


def _cleared(state: Committing) -> Next:
    decide, plan = state.decide, state.plan
    assert decide is not None
    assert plan is not None
    if decide.state is None or plan.kind is CommitKind.RECORD:
        return replace(state, phase=CommittingPhase.DECIDE), decide
    stage = Stage(Step.COMMIT_STAGE, decide.parent, decide.state)
    return replace(state, phase=CommittingPhase.STAGE), stage


def _staged(state: Committing, result: Done) -> Next:
    assert state.decide is not None
    return replace(state, phase=CommittingPhase.DECIDE), state.decide


def _decided(state: Committing, result: Done) -> Next:
    return _OVER, Returned(committed=True)


def _fenced(state: Committing, result: Outdated) -> Next:
    assert state.plan is not None
    return _OVER, Raised(fenced(state.plan, None))


def _gone(state: Committing, result: MemberGone) -> Next:
    """Refuse a batch that has lost a member before anything was committed. In a commit by record
    that keeps no state, also abort the other members: a later `aborting` cannot know that nothing
    was committed."""
    decide, plan = state.decide, state.plan
    assert decide is not None
    assert plan is not None
    refusal = member_gone(
        plan.sink_id, _batch(state), result.member, result.detail, is_kept=plan.is_kept
    )
    if plan.is_kept or plan.kind is not CommitKind.RECORD:
        return _OVER, Raised(refusal)
    ids = tuple(member.transactional_id for member in (decide.parent, *decide.members))
    abort = AbortOpen(Step.ABORT_MEMBERS, plan.generation, ids)
    return replace(state, phase=CommittingPhase.ABORT, refusal=refusal), abort


def _aborted(state: Committing, result: Done) -> Next:
    assert state.refusal is not None
    return _OVER, Raised(state.refusal)


def _partial(state: Committing, result: MaybePartial) -> Next:
    assert state.plan is not None
    return _OVER, Raised(maybe_partial(state.plan.sink_id, _batch(state), result.detail))


def _unknown(state: Committing, result: OutcomeUnknown) -> Next:
    plan = state.plan
    assert plan is not None
    return _OVER, Raised(outcome_unknown(plan.sink_id, _batch(state), is_kept=plan.is_kept))


def _batch(state: Committing) -> str:
    number = None if state.decide is None else state.decide.batch_id
    return "the batch" if number is None else f"batch {number}"


_TABLE: Final[dict[tuple[CommittingPhase, type[Result]], Callable[..., Next]]] = {
    (CommittingPhase.READ, Stored): _read,
    (CommittingPhase.LOSERS, Done): _lost,
    (CommittingPhase.LOSERS, Outdated): _fenced,
    (CommittingPhase.STAGE, Done): _staged,
    (CommittingPhase.STAGE, Outdated): _fenced,
    (CommittingPhase.STAGE, OutcomeUnknown): _unknown,
    (CommittingPhase.DECIDE, Done): _decided,
    (CommittingPhase.DECIDE, Outdated): _fenced,
    (CommittingPhase.DECIDE, MemberGone): _gone,
    (CommittingPhase.DECIDE, OutcomeUnknown): _unknown,
    (CommittingPhase.DECIDE, MaybePartial): _partial,
    (CommittingPhase.ABORT, Done): _aborted,
}
