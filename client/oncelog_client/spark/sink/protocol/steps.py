"""The steps of the protocol with their fail points, and the driver's commands with their results.

`planning`, `committing` and `aborting` are state machines over commands and results: `step(state,
result)` returns the next state and the next command, until the command is an outcome. A back-end
(`back_end`) performs each command with its own requests.

The parent is the driver's own producer, with the transactional id `sinkId`. A member is the
transaction of a task attempt. An ended member is a transaction that was committed or aborted.
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
    """The steps. A step's value is the prefix of its fail points, `<step>.before` and
    `<step>.after`."""

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

# Step -> the kinds of commit that have it.
STEPS: Final[dict[Step, frozenset[CommitKind]]] = {
    # 0. Planning, in a Python process of the driver, once a batch.
    Step.PLAN_READ: _BOTH,
    # PLAN_FENCE to PLAN_OPEN: only if this process begins a generation, for example at the first
    # batch of a run.
    Step.PLAN_FENCE: _BOTH,
    Step.PLAN_READ_AGAIN: _BOTH,
    # Only if a batch was decided and is not done.
    Step.PLAN_ROLL_FORWARD: _RECORD,
    Step.PLAN_OPEN: _BOTH,
    # A new epoch for the driver's producer (the parent), so that late requests are refused.
    Step.PLAN_RENEW: _GROUP,
    # Only if a transaction was left open.
    Step.PLAN_JANITOR: _BOTH,
    # 1. A task attempt, on an executor.
    Step.TASK_INIT: _BOTH,
    Step.TASK_PRODUCE: _BOTH,
    Step.TASK_HAND_OVER: _BOTH,
    # Only if the attempt fails.
    Step.TASK_ABORT: _BOTH,
    # 2. The commit, in another Python process of the driver.
    Step.COMMIT_READ: _BOTH,
    # Only if an attempt that Spark did not pick has left its transaction open.
    Step.COMMIT_LOSERS: _BOTH,
    Step.COMMIT_STAGE: _GROUP,
    Step.COMMIT_DECIDE: _BOTH,
    Step.COMMIT_END_MEMBERS: _RECORD,
    Step.COMMIT_DONE: _RECORD,
    # 3. If a task or the commit has failed for good.
    Step.ABORT_READ: _BOTH,
    Step.ABORT_FENCE: _BOTH,
    Step.ABORT_READ_AGAIN: _BOTH,
    Step.ABORT_MEMBERS: _BOTH,
}


def fail_points(kind: CommitKind) -> tuple[str, ...]:
    """Return all fail points of a kind of commit, in the protocol's order."""
    return tuple(
        f"{step}.{side}"
        for step, kinds in STEPS.items()
        if kind in kinds
        for side in ("before", "after")
    )


# --- commands: each has its own type, even with equal fields, because back-ends select by type


@dataclass(frozen=True, slots=True)
class Look:
    """Read the state and the open transactions of the sink, in parallel. `stable`: wait until no
    decision is in flight."""

    step: Step
    stable: bool


@dataclass(frozen=True, slots=True)
class FenceParent:
    """Give the parent a new epoch, for a generation. Earlier drivers are then fenced, and can
    decide nothing."""

    step: Step
    generation: int


@dataclass(frozen=True, slots=True)
class RollForward:
    """Carry out a decision that is not done (RECORD only)."""

    step: Step
    parent: TransactionMember
    unfinished: Unfinished


@dataclass(frozen=True, slots=True)
class Open:
    """Make the generation durable, in a transaction of the parent without members."""

    step: Step
    parent: TransactionMember
    state: SinkState


@dataclass(frozen=True, slots=True)
class AbortOpen:
    """Abort transactions: give their ids a new epoch. Decided transactions stay decided."""

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
    """Commit the members and the state, all or nothing. If `state` is None, the `parent` is a
    member too, and no state of the batch is kept."""

    step: Step
    parent: TransactionMember
    members: tuple[TransactionMember, ...]
    state: SinkState | None
    batch_id: int | None = None


Command = Look | FenceParent | RollForward | Open | AbortOpen | Stage | Decide


# --- results


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A decision with members that may still be open (RECORD only). `state`: the state of the sink
    after all members are ended."""

    members: tuple[TransactionMember, ...]
    state: SinkState


@dataclass(frozen=True, slots=True)
class Stored:
    """The result of Look. `state`: the durable state, None for a new sink or if no state is kept.
    `open_ids`: the sink's transactional ids with an open transaction."""

    state: SinkState | None
    open_ids: tuple[str, ...] = ()
    unfinished: Unfinished | None = None


@dataclass(frozen=True, slots=True)
class Fenced:
    """The parent has its new epoch."""

    parent: TransactionMember


@dataclass(frozen=True, slots=True)
class Done:
    """The command is carried out, and its effect is durable."""


@dataclass(frozen=True, slots=True)
class Outdated:
    """Nothing was done: a newer driver has taken over."""


@dataclass(frozen=True, slots=True)
class MemberGone:
    """As the result of Decide: nothing was decided, because a member timed out or was fenced. As
    the result of RollForward: decided rows are lost. `detail` is text for the error."""

    member: str
    detail: str


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """The outcome is unknown, because no response came in time."""


@dataclass(frozen=True, slots=True)
class MaybePartial:
    """As the result of Decide without a state (RECORD only): a part of the members may be
    committed, and the rest is not or may not be. `detail` is text for the error."""

    detail: str


Result = Stored | Fenced | Done | Outdated | MemberGone | OutcomeUnknown | MaybePartial


# --- outcomes


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation that a process has begun. The process passes it to its next planning. `planned`:
    the offset of the sink's state at the last planning."""

    number: int
    parent: TransactionMember
    planned: int


@dataclass(frozen=True, slots=True)
class Planned:
    """The batch is planned. `generation`: the generation for the next planning, None if no
    generation was begun."""

    plan: Plan
    generation: Generation | None


@dataclass(frozen=True, slots=True)
class Returned:
    """Spark may continue. `committed`: True if this call has decided the batch."""

    committed: bool


@dataclass(frozen=True, slots=True)
class Raised:
    """The query fails."""

    refusal: Refusal


Outcome = Planned | Returned | Raised
