"""The steps of the protocol and the fail points around each; what the driver asks of a back-end,
and what may come back.

`planning`, `committing` and `aborting` are machines over these: `step(state, answer)` gives the
next state and the next command, until the command is an outcome. A back-end (`back_end`) performs
commands; which requests they are made of is its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from oncelog_client.values import TransactionMember

from .messages import CommitKind, Plan
from .refusals import Refusal
from .state import SinkState


class Step(StrEnum):
    """A step by the name of its fail points, `<step>.before` and `<step>.after`."""

    PLAN_READ = "plan.read"
    PLAN_FENCE = "plan.fence"
    PLAN_READ_AGAIN = "plan.read-again"
    PLAN_ROLL_FORWARD = "plan.roll-forward"
    PLAN_OPEN = "plan.open"
    PLAN_RENEW = "plan.renew"
    PLAN_JANITOR = "plan.janitor"
    TASK_INIT = "task.init"
    TASK_PRODUCE = "task.produce"
    TASK_HAND_OVER = "task.hand-over"
    TASK_ABORT = "task.abort"
    COMMIT_READ = "commit.read"
    COMMIT_LOSERS = "commit.losers"
    COMMIT_STAGE = "commit.stage"
    COMMIT_DECIDE = "commit.decide"
    COMMIT_END_MEMBERS = "commit.end-members"
    COMMIT_DONE = "commit.done"
    ABORT_READ = "abort.read"
    ABORT_FENCE = "abort.fence"
    ABORT_READ_AGAIN = "abort.read-again"
    ABORT_MEMBERS = "abort.members"


_BOTH: Final = frozenset(CommitKind)
_GROUP: Final = frozenset({CommitKind.GROUP})
_RECORD: Final = frozenset({CommitKind.RECORD})

# Which steps a commit of each kind has.
STEPS: Final[dict[Step, frozenset[CommitKind]]] = {
    # 0. Planning, in a Python process of the driver, once a batch.
    Step.PLAN_READ: _BOTH,
    # Only where this process has no generation: the first batch of a run, or another process.
    Step.PLAN_FENCE: _BOTH,
    Step.PLAN_READ_AGAIN: _BOTH,
    # Only where a batch was decided and is not done.
    Step.PLAN_ROLL_FORWARD: _RECORD,
    Step.PLAN_OPEN: _BOTH,
    # The parent of this batch: with a new epoch, so that nothing late can meet it.
    Step.PLAN_RENEW: _GROUP,
    # Only where somebody has left a transaction open.
    Step.PLAN_JANITOR: _BOTH,
    # 1. A task attempt, on an executor.
    Step.TASK_INIT: _BOTH,
    Step.TASK_PRODUCE: _BOTH,
    Step.TASK_HAND_OVER: _BOTH,
    # Only where it fails.
    Step.TASK_ABORT: _BOTH,
    # 2. The commit, in another Python process of the driver.
    Step.COMMIT_READ: _BOTH,
    # Only where an attempt that did not win has left its transaction open.
    Step.COMMIT_LOSERS: _BOTH,
    Step.COMMIT_STAGE: _GROUP,
    Step.COMMIT_DECIDE: _BOTH,
    Step.COMMIT_END_MEMBERS: _RECORD,
    Step.COMMIT_DONE: _RECORD,
    # 3. Where a task or the commit has failed for good.
    Step.ABORT_READ: _BOTH,
    Step.ABORT_FENCE: _BOTH,
    Step.ABORT_READ_AGAIN: _BOTH,
    Step.ABORT_MEMBERS: _BOTH,
}


def fail_points(kind: CommitKind) -> tuple[str, ...]:
    """All fail points of a commit of that kind, in the protocol's order."""
    return tuple(
        f"{step}.{side}"
        for step, kinds in STEPS.items()
        if kind in kinds
        for side in ("before", "after")
    )


# --- commands


@dataclass(frozen=True, slots=True)
class Look:
    """Read the state, and which transactions of the sink are open, both at once. `stable`: wait for
    what is being decided."""

    step: Step
    stable: bool


@dataclass(frozen=True, slots=True)
class Fence:
    """Begin a generation as its parent: every driver before is fenced, and what it has not decided
    never will be."""

    step: Step
    generation: int


@dataclass(frozen=True, slots=True)
class RollForward:
    """Carry out what was decided and is not done (RECORD only)."""

    step: Step
    parent: TransactionMember
    unfinished: Unfinished


@dataclass(frozen=True, slots=True)
class Open:
    """Make the generation durable, in a transaction of the parent alone."""

    step: Step
    parent: TransactionMember
    state: SinkState


@dataclass(frozen=True, slots=True)
class AbortOpen:
    """Abort transactions by giving their ids a new epoch; what was decided stays decided."""

    step: Step
    generation: int
    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """Put the state into the parent's transaction (GROUP only)."""

    step: Step
    parent: TransactionMember
    state: SinkState


@dataclass(frozen=True, slots=True)
class Decide:
    """Commit the members, and with them the state; all of it or nothing. `parent` without a `state`
    holds rows of its own: nothing is kept of the batch."""

    step: Step
    parent: TransactionMember
    members: tuple[TransactionMember, ...]
    state: SinkState | None
    batch_id: int | None = None


Command = Look | Fence | RollForward | Open | AbortOpen | Stage | Decide


# --- answers


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A decision whose members may not all be ended (RECORD only): `state` is what holds once they
    are."""

    members: tuple[TransactionMember, ...]
    state: SinkState


@dataclass(frozen=True, slots=True)
class Stored:
    """What is durable, None for a new sink; the transactional ids of the sink that are open."""

    state: SinkState | None
    open_ids: tuple[str, ...] = ()
    unfinished: Unfinished | None = None


@dataclass(frozen=True, slots=True)
class Fenced:
    """The generation is begun."""

    parent: TransactionMember


@dataclass(frozen=True, slots=True)
class Done:
    """It is as the command says, and durable."""


@dataclass(frozen=True, slots=True)
class Outdated:
    """Nothing was done: a newer driver has come."""


@dataclass(frozen=True, slots=True)
class MemberGone:
    """Nothing was decided, because a member is not what its task left: it timed out, or somebody
    has fenced it. `detail` is for people. To RollForward: what was decided is lost."""

    member: str
    detail: str


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """Decided or not: the broker did not tell in time."""


Answer = Stored | Fenced | Done | Outdated | MemberGone | OutcomeUnknown


# --- outcomes


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation that a process has begun, for its next planning. `planned`: the state's offset
    when it last planned."""

    number: int
    parent: TransactionMember
    planned: int


@dataclass(frozen=True, slots=True)
class Planned:
    """`generation`: what this process may go on with, None for nothing new."""

    plan: Plan
    generation: Generation | None


@dataclass(frozen=True, slots=True)
class Returned:
    """Spark may go on. `committed`: whether it was this call that decided."""

    committed: bool


@dataclass(frozen=True, slots=True)
class Raised:
    """The query fails."""

    refusal: Refusal


Outcome = Planned | Returned | Raised
