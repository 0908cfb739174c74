"""Step 3, after a task or the commit has failed for good: what was written is given up, so that
readers do not wait for it; unless it was decided, or a newer driver has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from .ids import generation_of
from .messages import Plan, TaskMessage
from .steps import (
    AbortOpen,
    Answer,
    Command,
    Done,
    Fence,
    Fenced,
    Look,
    Outdated,
    Returned,
    Step,
    Stored,
)


class Phase(Enum):
    READ = "read"
    FENCE = "fence"
    READ_AGAIN = "read again"
    MEMBERS = "members"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Aborting:
    phase: Phase
    plan: Plan | None = None
    batch_id: int | None = None
    members: tuple[str, ...] = ()


Next = tuple[Aborting, Command | Returned]

_OVER: Final = Aborting(Phase.OVER)
_RETURNED: Final = Returned(committed=False)


def begin(messages: Sequence[TaskMessage | None], batch_id: int | None) -> Next:
    """`messages`: None for a partition whose task has failed.

    Without any other nothing is done, and what tasks that were killed have left open stays so until
    the next planning, or until it times out. Which generation is this driver's is known from
    messages only. To end what is open of the newest one would often hit a newer driver, as its
    coming is what makes all tasks of an older one fail.
    """
    known = [message for message in messages if message is not None and not message.skipped]
    members = tuple(one.member.transactional_id for one in known if one.member is not None)
    if not known:
        return _OVER, _RETURNED
    plan = known[0].plan
    state = Aborting(Phase.READ, plan, batch_id, members)
    return state, Look(Step.ABORT_READ, stable=False)


def step(state: Aborting, answer: Answer) -> Next:
    """Whatever goes wrong is left to the next generation, or to the transactions' time-outs."""
    following = _TABLE.get((state.phase, type(answer)))
    return (_OVER, _RETURNED) if following is None else following(state, answer)


def _read(state: Aborting, answer: Stored) -> Next:
    assert state.plan is not None
    if not state.plan.is_kept:
        return _members(state, answer)
    if _is_settled(state, answer):
        return _OVER, _RETURNED
    # A commit that is still on its way must not find the parent as it was.
    fence = Fence(Step.ABORT_FENCE, state.plan.generation)
    return replace(state, phase=Phase.FENCE), fence


def _fenced(state: Aborting, answer: Fenced) -> Next:
    return replace(state, phase=Phase.READ_AGAIN), Look(Step.ABORT_READ_AGAIN, stable=True)


def _read_again(state: Aborting, answer: Stored) -> Next:
    assert state.plan is not None
    return (_OVER, _RETURNED) if _is_settled(state, answer) else _members(state, answer)


def _members(state: Aborting, answer: Stored) -> Next:
    """All of this generation, also of tasks that failed and left no message, where another one has
    left one."""
    plan = state.plan
    assert plan is not None
    left = [one for one in answer.open_ids if generation_of(plan.sink_id, one) == plan.generation]
    ids = tuple(dict.fromkeys((*state.members, *left)))
    if not ids:
        return _OVER, _RETURNED
    abort = AbortOpen(Step.ABORT_MEMBERS, plan.generation, ids)
    return replace(state, phase=Phase.MEMBERS), abort


def _is_settled(state: Aborting, answer: Stored) -> bool:
    """Decided, or somebody else's business."""
    stored = answer.state
    return (
        stored is None
        or state.plan is None
        or stored.generation != state.plan.generation
        or answer.unfinished is not None
        or state.batch_id is None
        or stored.offset > state.batch_id
    )


def _over(state: Aborting, answer: Done | Outdated) -> Next:
    return _OVER, _RETURNED


_TABLE: Final[dict[tuple[Phase, type[Answer]], Callable[..., Next]]] = {
    (Phase.READ, Stored): _read,
    (Phase.FENCE, Fenced): _fenced,
    (Phase.READ_AGAIN, Stored): _read_again,
    (Phase.MEMBERS, Done): _over,
}
