"""Step 3 of the sink's protocol, after a task or the commit has failed for good: abort the written
rows, so that readers do not wait for them. The batch is not aborted if it was decided, if it may be
committed in part, or if a newer driver has taken over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from .ids import generation_of
from .messages import CommitKind, Plan, TaskMessage
from .steps import (
    AbortOpen,
    Command,
    Done,
    Fenced,
    FenceParent,
    Look,
    Outdated,
    Result,
    Returned,
    Step,
    Stored,
)


# Each state machine has its own phases, which its `_TABLE` maps to functions. `planning` has phases
# with the same names and other functions.
class AbortingPhase(Enum):
    READ = "read"
    FENCE = "fence"
    READ_AGAIN = "read again"
    MEMBERS = "members"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Aborting:
    phase: AbortingPhase
    plan: Plan | None = None
    batch_id: int | None = None
    members: tuple[str, ...] = ()


Next = tuple[Aborting, Command | Returned]

_OVER: Final = Aborting(AbortingPhase.OVER)
_RETURNED: Final = Returned(committed=False)


def begin(messages: Sequence[TaskMessage | None], batch_id: int | None) -> Next:
    """Begin an abort. `messages`: one for each task, None if the task has failed.

    Only a message says which generation belongs to this driver. If no task has sent a message, no
    transaction is aborted: the transactions of killed tasks stay open until the next planning or
    their timeout. The sink's newest generation is no substitute for a message. Often all tasks have
    failed because a newer driver has started, and the newest generation belongs to that driver.
    """
    known = [message for message in messages if message is not None and not message.skipped]
    members = tuple(
        message.member.transactional_id for message in known if message.member is not None
    )
    if not known:
        return _OVER, _RETURNED
    plan = known[0].plan
    if _may_be_partial(plan, messages, members):
        return _OVER, _RETURNED
    state = Aborting(AbortingPhase.READ, plan, batch_id, members)
    return state, Look(Step.ABORT_READ, stable=False)


def _may_be_partial(
    plan: Plan, messages: Sequence[TaskMessage | None], members: tuple[str, ...]
) -> bool:
    """Return True if some members may be committed, and no state shows it. Spark calls the commit
    if each task has sent a message. If the commit then fails, an abort of the other members would
    lose rows. They are committed by a late EndTxn, or time out. `committing` itself aborts the
    members if it sent no EndTxn."""
    is_atomic = plan.is_kept or plan.kind is CommitKind.GROUP or len(members) < 2
    return not is_atomic and None not in messages


def step(state: Aborting, result: Result) -> Next:
    """Return the next state and command. After any problem the machine ends: the next generation
    aborts the rest, or the transactions time out."""
    following = _TABLE.get((state.phase, type(result)))
    return (_OVER, _RETURNED) if following is None else following(state, result)


def _read(state: Aborting, result: Stored) -> Next:
    assert state.plan is not None
    if not state.plan.is_kept:
        return _members(state, result)
    if _is_settled(state, result):
        return _OVER, _RETURNED
    # Fence the driver's producer (the parent) first, so that a commit in flight is refused.
    fence = FenceParent(Step.ABORT_FENCE, state.plan.generation)
    return replace(state, phase=AbortingPhase.FENCE), fence


def _fenced(state: Aborting, result: Fenced) -> Next:
    return replace(state, phase=AbortingPhase.READ_AGAIN), Look(Step.ABORT_READ_AGAIN, stable=True)


def _read_again(state: Aborting, result: Stored) -> Next:
    assert state.plan is not None
    return (_OVER, _RETURNED) if _is_settled(state, result) else _members(state, result)


def _members(state: Aborting, result: Stored) -> Next:
    """Abort the transactions in the messages, and all open transactions of this generation. So the
    transactions of tasks that failed without a message are aborted, too."""
    plan = state.plan
    assert plan is not None
    left = [
        transactional_id
        for transactional_id in result.open_ids
        if generation_of(plan.sink_id, transactional_id) == plan.generation
    ]
    ids = tuple(dict.fromkeys((*state.members, *left)))
    if not ids:
        return _OVER, _RETURNED
    abort = AbortOpen(Step.ABORT_MEMBERS, plan.generation, ids)
    return replace(state, phase=AbortingPhase.MEMBERS), abort


def _is_settled(state: Aborting, result: Stored) -> bool:
    """Return True if the batch was decided, or a newer driver has taken over. Also return True if
    the batch number or the sink's state is unknown."""
    stored = result.state
    return (
        stored is None
        or state.plan is None
        or stored.generation != state.plan.generation
        or result.unfinished is not None
        or state.batch_id is None
        or stored.offset > state.batch_id
    )


def _over(state: Aborting, result: Done | Outdated) -> Next:
    return _OVER, _RETURNED


_TABLE: Final[dict[tuple[AbortingPhase, type[Result]], Callable[..., Next]]] = {
    (AbortingPhase.READ, Stored): _read,
    (AbortingPhase.FENCE, Fenced): _fenced,
    (AbortingPhase.READ_AGAIN, Stored): _read_again,
    (AbortingPhase.MEMBERS, Done): _over,
}
