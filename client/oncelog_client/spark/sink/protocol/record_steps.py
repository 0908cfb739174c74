"""A decision by record, step by step: check the members, write COMMIT, end each member, write
DONE. `RollForward` finishes the decision of an earlier driver, and begins after COMMIT. If no state
is kept, no record is written. `steps` explains the words parent and member.

`step(state, result)` returns the next state and command, until the command is an outcome. The
outcome is the result of the driver's command `Decide` or `RollForward`. Before COMMIT is durable,
the batch is undecided. After that, the batch is decided, and only EndTxn of each member and DONE
can follow, from this driver or a newer driver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from oncelog_client.values import TransactionMember

from .record_state import Entry
from .state import SinkState
from .steps import (
    Decide,
    Done,
    MaybePartial,
    MemberGone,
    OutcomeUnknown,
    Outdated,
    RollForward,
    Step,
    Unfinished,
)


class DecidingPhase(Enum):
    CHECK = "check"
    COMMIT = "commit"
    END = "end"
    CHECKING_PARENT = "checking the parent"
    DONE = "done"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Deciding:
    """The state of a decision. `members`: the transactions to end. `before`: the state in the log
    now. `after`: the state at the end, None if no state is kept. `is_decided`: COMMIT is
    durable."""

    phase: DecidingPhase
    parent: TransactionMember
    members: tuple[TransactionMember, ...]
    before: SinkState | None
    after: SinkState | None
    is_decided: bool = False
    lost: MemberGone | None = None


# --- commands


@dataclass(frozen=True, slots=True)
class Check:
    """Check that each member is open with exactly its producer id and epoch.

    Results: Done | MemberGone.
    """

    members: tuple[TransactionMember, ...]


@dataclass(frozen=True, slots=True)
class Append:
    """Append `entry` as a record, in a transaction of the parent. With the record DONE, the
    transaction also commits the offset of the sink's group.

    Results: Done | Outdated | OutcomeUnknown.
    """

    step: Step
    parent: TransactionMember
    entry: Entry


@dataclass(frozen=True, slots=True)
class EndMembers:
    """Send EndTxn(commit) for all members at once. A member that was committed before counts as
    ended.

    Results: Done | MemberGone | OutcomeUnknown.
    """

    step: Step
    members: tuple[TransactionMember, ...]


@dataclass(frozen=True, slots=True)
class CheckParent:
    """Check that no newer driver has fenced the parent.

    Results: Done | Outdated.
    """

    parent: TransactionMember


Command = Check | Append | EndMembers | CheckParent


# --- results


@dataclass(frozen=True, slots=True)
class DecidedMemberLost:
    """The commit of a member was decided, but the broker has aborted the member's transaction."""

    member: str
    detail: str


Result = Done | Outdated | MemberGone | OutcomeUnknown
Outcome = Result | DecidedMemberLost | MaybePartial
Next = tuple[Deciding, Command | Outcome]


def begin(asked: Decide | RollForward, before: SinkState | None) -> Next:
    """Begin a decision. `before`: the state that was read before the decision."""
    if isinstance(asked, RollForward):
        members, after = asked.unfinished.members, asked.unfinished.state
        state = Deciding(DecidingPhase.END, asked.parent, members, before, after, is_decided=True)
        return _end(state, Step.PLAN_ROLL_FORWARD)
    if asked.state is None:
        members = (asked.parent, *asked.members)
        return Deciding(DecidingPhase.CHECK, asked.parent, members, None, None), Check(members)
    state = Deciding(DecidingPhase.CHECK, asked.parent, asked.members, before, asked.state)
    return (state, Check(asked.members)) if asked.members else _say_done(state)


def step(state: Deciding, result: Result) -> Next:
    """Return the next state and command. Raises LookupError if `result` does not fit the
    command."""
    return _TABLE[state.phase, type(result)](state, result)


def _checked(state: Deciding, result: Done) -> Next:
    if state.after is None:
        # No state is stored. If the driver dies or a member times out before all members are ended,
        # the batch is committed in part.
        return _end(state)
    assert state.before is not None
    entry = Entry(state.before, Unfinished(state.members, state.after))
    return replace(state, phase=DecidingPhase.COMMIT), Append(
        Step.COMMIT_DECIDE, state.parent, entry
    )


def _committed(state: Deciding, result: Done) -> Next:
    return _end(replace(state, is_decided=True))


def _end(state: Deciding, step: Step = Step.COMMIT_END_MEMBERS) -> Next:
    return replace(state, phase=DecidingPhase.END), EndMembers(step, state.members)


def _ended(state: Deciding, result: Done) -> Next:
    return _over(state, result) if state.after is None else _say_done(state)


def _say_done(state: Deciding) -> Next:
    assert state.after is not None
    command = Append(Step.COMMIT_DONE, state.parent, Entry(state.after))
    return replace(state, phase=DecidingPhase.DONE), command


def _gone(state: Deciding, result: MemberGone) -> Next:
    """Handle a member that is not open any more. Before COMMIT the batch stays undecided. After
    COMMIT there are two possible reasons: a newer driver has committed the member and reused its
    transactional id, or the broker has aborted the member. `CheckParent` shows which, because a
    newer driver fences the parent first."""
    if not state.is_decided:
        return _undecided(state, result, f"transaction {result.member}: {result.detail}")
    state = replace(state, phase=DecidingPhase.CHECKING_PARENT, lost=result)
    return state, CheckParent(state.parent)


def _unknown(state: Deciding, result: OutcomeUnknown) -> Next:
    if state.is_decided:
        return _over(state, result)
    return _undecided(state, result, "the broker did not confirm the commit of each transaction")


def _undecided(state: Deciding, result: MemberGone | OutcomeUnknown, detail: str) -> Next:
    """End a batch without COMMIT. If no state is kept, EndTxn of the other members may already have
    committed them."""
    if state.phase is DecidingPhase.END and len(state.members) > 1:
        return _over(state, MaybePartial(detail))
    return _over(state, result)


def _is_lost(state: Deciding, result: Done) -> Next:
    assert state.lost is not None
    return _over(state, DecidedMemberLost(state.lost.member, state.lost.detail))


def _over(state: Deciding, result: Outcome) -> Next:
    return replace(state, phase=DecidingPhase.OVER), result


_TABLE: Final[dict[tuple[DecidingPhase, type[Outcome]], Callable[..., Next]]] = {
    (DecidingPhase.CHECK, Done): _checked,
    (DecidingPhase.CHECK, MemberGone): _gone,
    (DecidingPhase.COMMIT, Done): _committed,
    (DecidingPhase.COMMIT, Outdated): _over,
    (DecidingPhase.COMMIT, OutcomeUnknown): _over,
    (DecidingPhase.END, Done): _ended,
    (DecidingPhase.END, MemberGone): _gone,
    (DecidingPhase.END, OutcomeUnknown): _unknown,
    (DecidingPhase.CHECKING_PARENT, Done): _is_lost,
    (DecidingPhase.CHECKING_PARENT, Outdated): _over,
    (DecidingPhase.DONE, Done): _over,
    (DecidingPhase.DONE, Outdated): _over,
    (DecidingPhase.DONE, OutcomeUnknown): _over,
}
