"""The commit of a batch by a record (`CommitKind.RECORD`), with every possible answer at every
step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog_client.spark.sink.protocol import record_steps
from oncelog_client.spark.sink.protocol.record_state import Entry
from oncelog_client.spark.sink.protocol.record_steps import (
    Append,
    Check,
    CheckParent,
    Command,
    DecidedMemberLost,
    Deciding,
    EndMembers,
    Outcome,
    Result,
)
from oncelog_client.spark.sink.protocol.state import SinkState
from oncelog_client.spark.sink.protocol.steps import (
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
from oncelog_client.values import TransactionMember

PARENT = TransactionMember("s", 1, 0)
MEMBERS = (TransactionMember("s/4/a.0", 2, 0), TransactionMember("s/4/b.0", 3, 0))
BEFORE = SinkState("q", 4, 6)
AFTER = SinkState("q", 4, 7, rows=10)
UNFINISHED = Unfinished(MEMBERS, AFTER)

DECIDE = Decide(Step.COMMIT_DECIDE, PARENT, MEMBERS, AFTER, 6)
ROLL_FORWARD = RollForward(Step.PLAN_ROLL_FORWARD, PARENT, UNFINISHED)
UNCOUNTED = Decide(Step.COMMIT_DECIDE, MEMBERS[0], MEMBERS[1:], None)
EMPTY = Decide(Step.COMMIT_DECIDE, PARENT, (), AFTER, 6)

GONE = MemberGone(MEMBERS[1].transactional_id, "timed out")
ANSWERS: dict[type, tuple[Result, ...]] = {
    Check: (Done(), GONE),
    Append: (Done(), Outdated(), OutcomeUnknown()),
    EndMembers: (Done(), GONE, OutcomeUnknown()),
    CheckParent: (Done(), Outdated()),
}

Path = tuple[tuple[Command, Result], ...]


def paths(
    state: Deciding, command: Command | Outcome, taken: Path = ()
) -> Iterator[tuple[Path, Outcome]]:
    """Yield every path of commands and answers that is possible from here, with its outcome."""
    if isinstance(command, Outcome):
        yield taken, command
        return
    for answer in ANSWERS[type(command)]:
        following = record_steps.step(state, answer)
        yield from paths(*following, (*taken, (command, answer)))


def courses(asked: Decide | RollForward) -> list[tuple[Path, Outcome]]:
    return list(paths(*record_steps.begin(asked, BEFORE)))


def test_the_driver_writes_COMMIT_then_ends_the_members_then_writes_DONE() -> None:
    commit = Append(Step.COMMIT_DECIDE, PARENT, Entry(BEFORE, UNFINISHED))
    ended = EndMembers(Step.COMMIT_END_MEMBERS, MEMBERS)
    done = Append(Step.COMMIT_DONE, PARENT, Entry(AFTER))
    best = next(path for path, outcome in courses(DECIDE) if isinstance(outcome, Done))
    assert [command for command, _ in best] == [Check(MEMBERS), commit, ended, done]
    rolled = next(path for path, outcome in courses(ROLL_FORWARD) if isinstance(outcome, Done))
    assert [command for command, _ in rolled] == [
        EndMembers(Step.PLAN_ROLL_FORWARD, MEMBERS),
        done,
    ]


@pytest.mark.parametrize("asked", [DECIDE, ROLL_FORWARD, UNCOUNTED, EMPTY])
def test_each_step_follows_only_if_the_step_before_has_succeeded(
    asked: Decide | RollForward,
) -> None:
    for path, outcome in courses(asked):
        is_checked = is_decided = isinstance(asked, RollForward)
        is_ended = False
        for command, answer in path:
            is_done = isinstance(answer, Done)
            match command:
                case Check():
                    is_checked = is_done
                case Append(entry=entry) if entry.unfinished is not None:
                    assert is_checked
                    is_decided = is_done
                case EndMembers():
                    assert is_decided or asked is UNCOUNTED
                    assert is_checked
                    is_ended = is_done
                case Append():
                    assert is_ended or asked is EMPTY
                case CheckParent():
                    assert is_decided
        if isinstance(outcome, Done):
            assert all(isinstance(answer, Done) for _, answer in path)
        if isinstance(outcome, MemberGone):
            # No record on this path has decided the batch, so any process that reads the state may
            # abort the batch.
            assert not is_decided
            assert not any(isinstance(command, EndMembers) for command, _ in path)


def test_without_a_stored_state_a_batch_may_be_partial_after_a_failed_end_of_its_members() -> None:
    """The broker may have committed some of the members, and no record says which."""
    failed = {
        outcome for path, outcome in courses(UNCOUNTED) if isinstance(path[-1][0], EndMembers)
    }
    assert failed == {
        Done(),
        MaybePartial(f"transaction {GONE.member}: {GONE.detail}"),
        MaybePartial("the broker did not confirm the commit of each transaction"),
    }


@pytest.mark.parametrize("answer", [MemberGone(PARENT.transactional_id, "x"), OutcomeUnknown()])
def test_a_batch_of_one_member_is_never_partial(answer: Result) -> None:
    state, _ = record_steps.begin(Decide(Step.COMMIT_DECIDE, PARENT, (), None), None)
    state, _ = record_steps.step(state, Done())
    assert record_steps.step(state, answer)[1] == answer


def test_a_decided_member_counts_as_lost_only_if_no_newer_driver_fenced_the_parent() -> None:
    for asked in (DECIDE, ROLL_FORWARD):
        lost = [path for path, outcome in courses(asked) if isinstance(outcome, DecidedMemberLost)]
        assert len(lost) == 1
        assert lost[0][-2][1] == GONE
        assert lost[0][-1] == (CheckParent(PARENT), Done())


def test_an_answer_that_does_not_belong_to_the_step_is_an_error() -> None:
    state, _ = record_steps.begin(DECIDE, BEFORE)
    with pytest.raises(LookupError):
        record_steps.step(state, Outdated())
    hash(state)
