"""Planning is step 0 of the sink's protocol, before a batch. Each test gives planning a sequence of
answers, and checks the commands that follow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_client.spark.sink.protocol.messages import CommitKind, Intent, Plan
from oncelog_client.spark.sink.protocol.planning import MOST_TAKEOVERS, begin, step
from oncelog_client.spark.sink.protocol.refusals import Reason
from oncelog_client.spark.sink.protocol.state import SinkState
from oncelog_client.spark.sink.protocol.steps import (
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
    Unfinished,
)
from oncelog_client.values import TransactionMember

PARENT = TransactionMember("s", 1, 3)
RENEWED = TransactionMember("s", 1, 4)
GROUP = Intent("s", CommitKind.GROUP, query_id="q")
RECORD = replace(GROUP, kind=CommitKind.RECORD)
STATE = SinkState("q", 4, 8, 5)
LOOK = Look(Step.PLAN_READ, stable=False)
LOOK_AGAIN = Look(Step.PLAN_READ_AGAIN, stable=True)
Asked = Command | Planned | Raised


def asked(intent: Intent, begun: Generation | None, *answers: Result) -> list[Asked]:
    """Return the first command of planning, and the command after each answer. The last command is
    the outcome."""
    state, command = begin(intent, begun)
    commands: list[Asked] = [command]
    for answer in answers:
        state, command = step(state, answer)
        commands.append(command)
    return commands


def planned(number: int, parent: TransactionMember, done: int, owner: str | None = "q") -> Planned:
    plan = Plan("s", CommitKind.GROUP, number, parent, owner, done, "q")
    return Planned(plan, Generation(number, parent, done))


def test_the_first_planning_of_a_sink_begins_generation_1() -> None:
    assert asked(
        GROUP, None, Stored(None), Fenced(PARENT), Stored(None), Done(), Fenced(RENEWED)
    ) == [
        LOOK,
        FenceParent(Step.PLAN_FENCE, 1),
        LOOK_AGAIN,
        Open(Step.PLAN_OPEN, PARENT, SinkState("q", 1, 0)),
        FenceParent(Step.PLAN_RENEW, 1),
        planned(1, RENEWED, 0),
    ]


def test_a_process_continues_its_generation_after_its_batch_is_done() -> None:
    begun = Generation(4, PARENT, 7)
    assert asked(GROUP, begun, Stored(STATE), Fenced(RENEWED)) == [
        LOOK,
        FenceParent(Step.PLAN_RENEW, 4),
        planned(4, RENEWED, 8),
    ]


@pytest.mark.parametrize(
    ("begun", "stored"),
    [
        # This process has begun no generation.
        (None, Stored(STATE)),
        # The process's last planned batch is not done.
        (Generation(4, PARENT, 8), Stored(STATE)),
        # Another process of this driver, or another driver, has begun a newer generation.
        (Generation(3, PARENT, 7), Stored(STATE)),
        # The last batch is decided, but its members are not ended.
        (Generation(4, PARENT, 7), Stored(STATE, (), Unfinished((), STATE))),
    ],
)
def test_another_generation_begins_if_the_process_cannot_continue_one(
    begun: Generation | None, stored: Stored
) -> None:
    assert asked(GROUP, begun, stored)[1:] == [FenceParent(Step.PLAN_FENCE, 5)]


def test_planning_uses_the_state_that_is_read_after_the_fence() -> None:
    """The older driver commits a batch before the fence."""
    commands = asked(
        GROUP,
        None,
        Stored(STATE),
        Fenced(PARENT),
        Stored(replace(STATE, offset=9, rows=6, source_end="{}")),
        Done(),
        Fenced(RENEWED),
    )
    assert commands[3] == Open(Step.PLAN_OPEN, PARENT, SinkState("q", 5, 9, 6, "{}"))
    assert commands[-1] == planned(5, RENEWED, 9)


def test_the_slower_of_two_drivers_with_the_same_generation_takes_the_next_one() -> None:
    """The other driver has opened its generation first."""
    commands = asked(
        GROUP, None, Stored(STATE), Fenced(PARENT), Stored(replace(STATE, generation=5))
    )
    assert commands[-1] == FenceParent(Step.PLAN_FENCE, 6)


@pytest.mark.parametrize(
    "answers",
    [
        (Outdated(),),
        (Fenced(PARENT), Stored(STATE), Outdated()),
        (Fenced(PARENT), Stored(STATE), Done(), Outdated()),
        (Fenced(PARENT), Stored(STATE, ("s/4/p.0",)), Done(), Fenced(RENEWED), Outdated()),
    ],
)
def test_planning_starts_again_after_another_driver_took_over(answers: tuple[Result, ...]) -> None:
    assert asked(GROUP, None, Stored(STATE), *answers)[-1] == LOOK


def test_planning_fails_after_too_many_takeovers() -> None:
    answers: list[Result] = [Stored(STATE), Outdated()] * (MOST_TAKEOVERS + 1)
    said = asked(GROUP, None, *answers)
    last = said[-1]
    assert isinstance(last, Raised)
    assert last.refusal.reason is Reason.CONTENDED
    # If a consumer group has the sink's name, every generation is refused. Planning must then end
    # before it uses up the 31 bits of a generation.
    assert max(entry.generation for entry in said if isinstance(entry, FenceParent)) < 1 << 31


def test_planning_skips_refused_generations_that_are_not_in_the_state() -> None:
    """The state was deleted, but the coordinator still remembers generation 1000."""
    state, command = begin(GROUP, None)
    for _ in range(2 * MOST_TAKEOVERS):
        if isinstance(command, Look):
            state, command = step(state, Stored(None))
        else:
            assert isinstance(command, FenceParent)
            if command.generation > 1000:
                return
            state, command = step(state, Outdated())
    raise AssertionError("never")


def test_a_query_that_may_not_write_fences_no_producer() -> None:
    last = asked(replace(GROUP, query_id="other"), None, Stored(STATE))[-1]
    assert isinstance(last, Raised)
    assert last.refusal.reason is Reason.NEW_CHECKPOINT


def test_a_query_that_takes_over_begins_at_batch_0_and_keeps_the_source_end() -> None:
    heir = replace(GROUP, query_id="other", adopts=True)
    stored = Stored(replace(STATE, source_end="{}", is_planner_known=False))
    commands = asked(heir, None, stored, Fenced(PARENT), stored, Done(), Fenced(RENEWED))
    assert commands[3] == Open(Step.PLAN_OPEN, PARENT, SinkState("other", 5, 0, 5, "{}"))
    last = commands[-1]
    assert isinstance(last, Planned)
    assert (last.plan.owner, last.plan.done) == ("other", 0)


END, NEWER_END = '{"a":{"0":3}}', '{"a":{"0":6}}'
HEIR = replace(GROUP, query_id="other", adopts=True, noted_batch=0, sink_starts=(END,))


def test_a_new_query_opens_if_it_begins_at_the_source_end_of_the_fenced_state() -> None:
    stored = Stored(replace(STATE, source_end='{"a": {"0": 3}}'))
    last = asked(HEIR, None, stored, Fenced(PARENT), stored)[-1]
    assert isinstance(last, Open)
    # A restart before batch 0 is committed.
    opened = Stored(last.state)
    assert asked(HEIR, None, opened, Fenced(PARENT), opened)[-1] == replace(
        last, state=replace(last.state, generation=6)
    )


@pytest.mark.parametrize("kind", CommitKind)
@pytest.mark.parametrize(
    ("starts", "end"), [((END,), NEWER_END), ((NEWER_END, END), NEWER_END), ((END,), None)]
)
def test_a_batch_between_the_start_of_a_new_query_and_the_fence_refuses_the_query(
    kind: CommitKind, starts: tuple[str, ...], end: str | None
) -> None:
    heir = replace(HEIR, kind=kind, sink_starts=starts)
    before = Stored(replace(STATE, source_end=END))
    after = Stored(replace(STATE, offset=9, source_end=end))
    # The state before the fence may be stale, so it decides nothing.
    for first in (before, after):
        commands = asked(heir, None, first, Fenced(PARENT), after)
        assert commands[:3] == [LOOK, FenceParent(Step.PLAN_FENCE, 5), LOOK_AGAIN]
        assert isinstance(commands[3], Raised)
        assert commands[3].refusal.reason is Reason.OLD_START
        for said in ("sink s ", "of query q ", f"startingOffsets=sink:s was {END}", "empty check"):
            assert said in commands[3].refusal.message


def test_a_decision_that_is_carried_out_after_the_fence_refuses_the_new_query() -> None:
    after = replace(STATE, offset=9, source_end=NEWER_END)
    stored = Stored(replace(STATE, source_end=END), (), Unfinished((), after))
    heir = replace(HEIR, kind=CommitKind.RECORD)
    last = asked(heir, None, stored, Fenced(PARENT), stored, Done())[-1]
    assert isinstance(last, Raised)
    assert last.refusal.reason is Reason.OLD_START


def test_a_new_query_in_the_process_of_the_old_query_is_refused_without_a_fence() -> None:
    """The process continues its generation, so it reads the state only once."""
    stored = Stored(replace(STATE, source_end=NEWER_END))
    last = asked(HEIR, Generation(4, PARENT, 7), stored)[-1]
    assert isinstance(last, Raised)
    assert last.refusal.reason is Reason.OLD_START


@pytest.mark.parametrize(
    ("intent", "stored"),
    [
        # A query that begins elsewhere, for example at earliest.
        (replace(HEIR, sink_starts=()), replace(STATE, source_end=NEWER_END)),
        # Batch 0 is committed, so the state has its end.
        (HEIR, SinkState("other", 4, 1, 5, NEWER_END)),
        # The state was deleted, so there is no batch that could be repeated.
        (HEIR, None),
    ],
)
def test_the_start_is_compared_only_for_a_query_that_continues_a_sink(
    intent: Intent, stored: SinkState | None
) -> None:
    answer = Stored(stored)
    assert isinstance(asked(intent, None, answer, Fenced(PARENT), answer)[-1], Open)


def test_a_new_generation_keeps_the_flag_of_a_source_end_that_is_too_long() -> None:
    stored = Stored(replace(STATE, is_end_too_long=True))
    commands = asked(GROUP, None, stored, Fenced(PARENT), stored)
    opened = replace(STATE, generation=5, is_end_too_long=True)
    assert commands[3] == Open(Step.PLAN_OPEN, PARENT, opened)


def test_a_query_with_later_batches_is_not_new_and_cannot_take_over() -> None:
    intent = replace(GROUP, query_id="other", adopts=True, noted_batch=7)
    last = asked(intent, None, Stored(STATE))[-1]
    assert isinstance(last, Raised)
    assert "at batch 7, so the query is not new" in last.refusal.message


def test_an_older_copy_of_the_checkpoint_is_refused_before_any_fence() -> None:
    last = asked(replace(GROUP, noted_batch=6), None, Stored(STATE))[-1]
    assert isinstance(last, Raised)
    assert last.refusal.reason is Reason.OLD_CHECKPOINT
    # The checkpoint may repeat the last committed batch.
    assert asked(replace(GROUP, noted_batch=7), None, Stored(STATE))[-1] == FenceParent(
        Step.PLAN_FENCE, 5
    )


def test_an_unknown_query_does_not_change_the_owner() -> None:
    unknown = replace(GROUP, query_id=None)
    stored = Stored(STATE)
    commands = asked(unknown, None, stored, Fenced(PARENT), stored, Done(), Fenced(RENEWED))
    opened = replace(STATE, generation=5, is_planner_known=False)
    assert commands[3] == Open(Step.PLAN_OPEN, PARENT, opened)
    last = commands[-1]
    assert isinstance(last, Planned)
    assert (last.plan.query_id, last.plan.owner, last.plan.done) == (None, "q", 8)


def test_planning_aborts_open_transactions_up_to_its_own_generation() -> None:
    stored = Stored(STATE, ("s/3/p.0", "s/4/p.1", "s/5/p.0", "t/1/p.0"))
    commands = asked(GROUP, Generation(4, PARENT, 7), stored, Fenced(RENEWED), Done())
    assert commands[2] == AbortOpen(Step.PLAN_JANITOR, 4, ("s/3/p.0", "s/4/p.1"))
    assert commands[3] == planned(4, RENEWED, 8)


def test_a_batch_write_that_is_done_needs_no_generation() -> None:
    for version in (7, 2):
        intent = Intent("s", CommitKind.GROUP, "q", version)
        *_, last = asked(intent, None, Stored(STATE))
        assert isinstance(last, Planned)
        assert (last.plan.parent, last.plan.done, last.generation) == (None, 8, None)


def test_a_decision_is_carried_out_before_a_generation_is_opened() -> None:
    """With a commit by record, readers may already see a part of the batch."""
    after = replace(STATE, offset=9)
    unfinished = Unfinished((TransactionMember("s/4/p.0", 7, 1),), after)
    stored = Stored(STATE, ("s/4/p.0",), unfinished)
    commands = asked(RECORD, None, stored, Fenced(PARENT), stored, Done(), Done(), Done())
    assert commands[3:] == [
        RollForward(Step.PLAN_ROLL_FORWARD, PARENT, unfinished),
        Open(Step.PLAN_OPEN, PARENT, replace(after, generation=5)),
        # RollForward has ended the transactions of the members, so a new epoch of their ids does no
        # harm.
        AbortOpen(Step.PLAN_JANITOR, 5, ("s/4/p.0",)),
        Planned(Plan("s", CommitKind.RECORD, 5, PARENT, "q", 9, "q"), Generation(5, PARENT, 9)),
    ]


@pytest.mark.parametrize(
    ("intent", "answers", "reason"),
    [
        (
            RECORD,
            (Stored(STATE, (), Unfinished((), STATE)), MemberGone("s/4/p.0", "")),
            Reason.DECIDED_MEMBER_LOST,
        ),
        (GROUP, (Stored(STATE), OutcomeUnknown()), Reason.OUTCOME_UNKNOWN),
    ],
)
def test_planning_fails_after_a_lost_member_and_after_an_unknown_outcome(
    intent: Intent, answers: tuple[Result, ...], reason: Reason
) -> None:
    last = asked(intent, None, Stored(STATE), Fenced(PARENT), *answers)[-1]
    assert isinstance(last, Raised)
    assert last.refusal.reason is reason


def test_an_answer_that_does_not_belong_to_the_command_is_an_error() -> None:
    with pytest.raises(LookupError):
        asked(GROUP, None, Done())
