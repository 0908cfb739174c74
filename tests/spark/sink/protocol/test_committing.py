"""Commit and abort, steps 2 and 3 of the sink's protocol, as state machines: the commands that they
issue after each sequence of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from oncelog_client.spark.sink.protocol import aborting, committing
from oncelog_client.spark.sink.protocol.messages import CommitKind, Plan, TaskMessage
from oncelog_client.spark.sink.protocol.refusals import Reason
from oncelog_client.spark.sink.protocol.state import SinkState
from oncelog_client.spark.sink.protocol.steps import (
    AbortOpen,
    Command,
    Decide,
    Done,
    Fenced,
    FenceParent,
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
    Unfinished,
)
from oncelog_client.values import TransactionMember

PARENT = TransactionMember("s", 1, 3)
MEMBERS = tuple(TransactionMember(f"s/4/p.{number}", 10 + number, 0) for number in range(3))
PLAN = Plan("s", CommitKind.GROUP, 4, PARENT, "q", 8, "q")
STATE = SinkState("q", 4, 8, 5)
AFTER = SinkState("q", 4, 9, 7, "{}")
ONCE = Plan("once", CommitKind.GROUP, 1, None, None, 0)

# The second task has no rows.
MESSAGES = [
    TaskMessage(PLAN, "q", 0, MEMBERS[0], 4),
    TaskMessage(PLAN, "q", 1),
    TaskMessage(PLAN, "q", 2, MEMBERS[2], 3),
]
SKIPPED = [replace(message, member=None, rows=0, skipped=True) for message in MESSAGES]
WINNERS = (MEMBERS[0], MEMBERS[2])
LOOK = Look(Step.COMMIT_READ, stable=True)
STAGE = Stage(Step.COMMIT_STAGE, PARENT, AFTER)
DECIDE = Decide(Step.COMMIT_DECIDE, PARENT, WINNERS, AFTER, 8)
Asked = Command | Returned | Raised


def committed(
    messages: Sequence[TaskMessage | None],
    *answers: Result,
    batch_id: int | None = 8,
    end: str | None = "{}",
) -> list[Asked]:
    state, command = committing.begin(messages, batch_id, end)
    commands: list[Asked] = [command]
    for answer in answers:
        state, command = committing.step(state, answer)
        commands.append(command)
    return commands


def aborted(messages: Sequence[TaskMessage | None], *answers: Result) -> list[Command | Returned]:
    state, command = aborting.begin(messages, 8)
    commands = [command]
    for answer in answers:
        state, command = aborting.step(state, answer)
        commands.append(command)
    return commands


def reason(command: Asked) -> Reason:
    assert isinstance(command, Raised)
    return command.refusal.reason


# --- commit


def test_one_decision_commits_all_members_and_the_state() -> None:
    assert committed(MESSAGES, Stored(STATE), Done(), Done()) == [
        LOOK,
        STAGE,
        DECIDE,
        Returned(committed=True),
    ]


def test_a_batch_without_rows_is_counted() -> None:
    *_, decide, _ = committed(MESSAGES[1:2], Stored(STATE), Done(), Done())
    assert decide == Decide(Step.COMMIT_DECIDE, PARENT, (), replace(AFTER, rows=0), 8)


def test_a_commit_by_record_stages_no_state() -> None:
    messages = [
        replace(message, plan=replace(PLAN, kind=CommitKind.RECORD)) for message in MESSAGES
    ]
    assert committed(messages, Stored(STATE), Done())[1:] == [DECIDE, Returned(committed=True)]


def test_losing_attempts_are_aborted_before_the_decision() -> None:
    """Their open transactions would hold back readers in some partitions only, so readers would see
    a part of the batch. The transactions of the parent, of other sinks and of other generations
    stay open."""
    open_ids = (
        *(member.transactional_id for member in MEMBERS),
        "s",
        "s/3/p.1",
        "s/5/p.1",
        "t/4/p.1",
    )
    commands = committed(MESSAGES, Stored(STATE, open_ids), Done(), Done(), Done())
    assert commands[1:] == [
        AbortOpen(Step.COMMIT_LOSERS, 4, ("s/4/p.1",)),
        STAGE,
        DECIDE,
        Returned(committed=True),
    ]


def test_a_done_batch_is_not_committed_again() -> None:
    assert committed(MESSAGES, Stored(AFTER)) == [LOOK, Returned(committed=False)]
    assert committed(SKIPPED, Stored(AFTER)) == [LOOK, Returned(committed=False)]


def test_a_batch_write_with_a_done_version_needs_no_request() -> None:
    plan = replace(PLAN, parent=None, batch_id=8)
    skipped = [replace(message, plan=plan) for message in SKIPPED]
    assert committed(skipped) == [Returned(committed=False)]


@pytest.mark.parametrize("messages", [MESSAGES, SKIPPED], ids=["written", "skipped"])
def test_a_repeated_batch_must_have_the_same_source_end(messages: list[TaskMessage]) -> None:
    """A query with an old copy of the checkpoint plans this batch number again, but with another
    end."""
    stored = Stored(replace(AFTER, source_end='{"a":{"0":5}}'))
    last = committed(messages, stored)[-1]
    assert reason(last) is Reason.OLD_CHECKPOINT
    assert isinstance(last, Raised)
    for said in ("sink s", "query q", "batch 8", 'ended at {"a":{"0":5}}', "with the end {}"):
        assert said in last.refusal.message


@pytest.mark.parametrize(
    ("stored", "end"),
    [
        (replace(AFTER, source_end=None), '{"a":{"0":5}}'),
        (replace(AFTER, source_end='{"a":{"0":5}}'), None),
        (replace(AFTER, source_end='{"a":{"0":5},"b":{}}'), '{"b": {}, "a": {"0": 5}}'),
    ],
    ids=["no-end-in-the-state", "no-end-in-the-commit", "equal-json"],
)
def test_a_repeated_batch_is_accepted_with_an_equal_or_unknown_source_end(
    stored: SinkState, end: str | None
) -> None:
    assert committed(SKIPPED, Stored(stored), end=end)[-1] == Returned(committed=False)


@pytest.mark.parametrize("messages", [MESSAGES, SKIPPED], ids=["written", "skipped"])
def test_a_batch_before_the_last_done_batch_is_refused(messages: list[TaskMessage]) -> None:
    stored = Stored(replace(AFTER, offset=10))
    assert reason(committed(messages, stored)[-1]) is Reason.OLD_CHECKPOINT


def test_a_batch_with_skipped_tasks_is_never_decided() -> None:
    """A task skips its rows if the batch is done in the sink's state. If the batch is not done at
    the commit, the state has been set back since then."""
    mixed = [MESSAGES[0], *SKIPPED[1:]]
    for messages in (SKIPPED, mixed):
        assert reason(committed(messages, Stored(STATE))[-1]) is Reason.FENCED


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ((Stored(replace(STATE, generation=5)),), Reason.FENCED),
        ((Stored(None),), Reason.FENCED),
        ((Stored(replace(STATE, query_id="other")),), Reason.NEW_CHECKPOINT),
        ((Stored(STATE), Outdated()), Reason.FENCED),
        ((Stored(STATE), Done(), Outdated()), Reason.FENCED),
        ((Stored(STATE, ("s/4/p.9",)), Outdated()), Reason.FENCED),
        ((Stored(STATE), Done(), MemberGone("s/4/p.0", "timed out")), Reason.MEMBER_GONE),
        ((Stored(STATE), Done(), OutcomeUnknown()), Reason.OUTCOME_UNKNOWN),
    ],
)
def test_a_driver_that_is_fenced_or_has_lost_a_member_commits_nothing(
    answers: tuple[Result, ...], why: Reason
) -> None:
    assert reason(committed(MESSAGES, *answers)[-1]) is why


def test_the_error_of_a_fenced_driver_names_the_newer_query_if_it_is_known() -> None:
    newer = replace(STATE, generation=5)
    raised = committed(MESSAGES, Stored(newer))[-1]
    assert isinstance(raised, Raised)
    assert "query q in generation 5 has taken over" in raised.refusal.message
    # The state names the query of the done batches. Here the query of the new driver is unknown.
    raised = committed(MESSAGES, Stored(replace(newer, is_planner_known=False)))[-1]
    assert isinstance(raised, Raised)
    assert "query q" not in raised.refusal.message
    for said in ("generation 5, begun by an unknown query", "the same sinkId"):
        assert said in raised.refusal.message


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [*MESSAGES, None],
        [*MESSAGES, replace(MESSAGES[0], plan=replace(PLAN, done=7))],
        [*MESSAGES, replace(MESSAGES[0], query_id="other")],
    ],
)
def test_messages_that_do_not_belong_together_are_refused(
    messages: list[TaskMessage | None],
) -> None:
    assert reason(committed(messages)[-1]) is Reason.BAD_MESSAGES


def test_an_unknown_query_is_refused() -> None:
    plan = replace(PLAN, query_id=None)
    messages = [replace(message, plan=plan, query_id=None) for message in MESSAGES]
    assert reason(committed(messages)[-1]) is Reason.UNKNOWN_QUERY


def test_without_a_stored_state_the_first_member_commits_all_members() -> None:
    members = tuple(
        member._replace(transactional_id=f"once/1/p.{member.producer_id}") for member in MEMBERS
    )
    messages = [TaskMessage(ONCE, None, number, member, 1) for number, member in enumerate(members)]
    open_ids = (*(member.transactional_id for member in members), "once/1/p.99")
    assert committed(messages, Stored(None, open_ids), Done(), Done(), batch_id=None) == [
        LOOK,
        AbortOpen(Step.COMMIT_LOSERS, 1, ("once/1/p.99",)),
        Decide(Step.COMMIT_DECIDE, members[0], members[1:], None),
        Returned(committed=True),
    ]
    nothing = [TaskMessage(ONCE, None, 0)]
    assert committed(nothing, batch_id=None) == [Returned(committed=False)]


# --- abort


ABORT = AbortOpen(Step.ABORT_MEMBERS, 4, ("s/4/p.0", "s/4/p.2", "s/4/p.7"))
LOOKS = Look(Step.ABORT_READ, stable=False), Look(Step.ABORT_READ_AGAIN, stable=True)


def test_an_undecided_batch_is_aborted_after_the_fence() -> None:
    """The abort includes the transaction of a task that failed without a message."""
    left = Stored(STATE, ("s/4/p.0", "s/4/p.7", "s/5/p.0"))
    answers = Stored(STATE), Fenced(PARENT), left, Done()
    assert aborted([*MESSAGES, None], *answers) == [
        LOOKS[0],
        FenceParent(Step.ABORT_FENCE, 4),
        LOOKS[1],
        ABORT,
        Returned(committed=False),
    ]


@pytest.mark.parametrize(
    "stored",
    [
        # The batch is decided, and only the response was lost.
        Stored(AFTER),
        Stored(STATE, (), Unfinished(WINNERS, AFTER)),
        # A newer driver has begun, or there is no state.
        Stored(replace(STATE, generation=5)),
        Stored(None),
    ],
)
def test_a_batch_that_may_be_decided_is_not_aborted(stored: Stored) -> None:
    over = Returned(committed=False)
    assert aborted(MESSAGES, stored) == [LOOKS[0], over]
    # The result is the same if only the second read, after the fence, finds this state.
    assert aborted(MESSAGES, Stored(STATE), Fenced(PARENT), stored)[3:] == [over]


@pytest.mark.parametrize(
    "answers",
    [
        (Stored(STATE), Outdated()),
        (Stored(STATE), Fenced(PARENT), Stored(STATE), Outdated()),
    ],
)
def test_an_abort_that_is_refused_as_outdated_ends_without_an_error(
    answers: tuple[Result, ...],
) -> None:
    assert aborted(MESSAGES, *answers)[-1] == Returned(committed=False)


def test_without_a_message_nothing_is_aborted() -> None:
    assert aborted([None, None]) == [Returned(committed=False)]


def test_an_abort_of_a_write_that_stores_no_state_leaves_nothing_open() -> None:
    messages = [TaskMessage(ONCE, None, 0, TransactionMember("once/1/p.0", 3, 0), 1), None]
    assert aborted(messages, Stored(None, ("once/1/q.0",)), Done())[1:] == [
        AbortOpen(Step.ABORT_MEMBERS, 1, ("once/1/p.0", "once/1/q.0")),
        Returned(committed=False),
    ]


# --- a commit by record that keeps no state


RECORDED = replace(ONCE, kind=CommitKind.RECORD)
ONCE_MEMBERS = tuple(TransactionMember(f"once/1/p.{number}", number, 0) for number in range(2))
ONCE_IDS = tuple(member.transactional_id for member in ONCE_MEMBERS)
UNCOUNTED = [
    TaskMessage(RECORDED, None, number, member, 1) for number, member in enumerate(ONCE_MEMBERS)
]


def test_the_members_are_aborted_by_the_commit_if_none_is_committed() -> None:
    *_, abort, last = committed(
        UNCOUNTED, Stored(None), MemberGone(ONCE_IDS[1], "x"), Done(), batch_id=None
    )
    assert abort == AbortOpen(Step.ABORT_MEMBERS, 1, ONCE_IDS)
    assert isinstance(last, Raised)
    assert last.refusal.reason is Reason.MEMBER_GONE
    assert "not even in part" in last.refusal.message
    assert "Repeat the write" in last.refusal.message
    assert "restarted" not in last.refusal.message


def test_the_error_of_a_batch_that_may_be_partial_says_so() -> None:
    last = committed(UNCOUNTED, Stored(None), MaybePartial("x"), batch_id=None)[-1]
    assert isinstance(last, Raised)
    assert last.refusal.reason is Reason.MAYBE_PARTIAL
    for said in ("may be committed in part", "(x)", "may write rows twice", "txnAppId"):
        assert said in last.refusal.message


@pytest.mark.parametrize("plan", [ONCE, RECORDED])
def test_the_error_of_an_unknown_outcome_promises_no_restart_without_a_state(plan: Plan) -> None:
    messages = [replace(UNCOUNTED[0], plan=plan)]
    last = committed(messages, Stored(None), OutcomeUnknown(), batch_id=None)[-1]
    assert isinstance(last, Raised)
    assert last.refusal.reason is Reason.OUTCOME_UNKNOWN
    assert "restarted" not in last.refusal.message
    assert "may write rows twice" in last.refusal.message


def test_a_batch_that_may_be_committed_in_part_is_not_aborted() -> None:
    """Each task has sent a message, so the commit may have begun."""
    assert aborted(UNCOUNTED) == [Returned(committed=False)]


@pytest.mark.parametrize(
    "messages",
    [
        [*UNCOUNTED, None],
        UNCOUNTED[:1],
        [replace(message, plan=ONCE) for message in UNCOUNTED],
    ],
    ids=["a-task-failed", "one-member", "commit-by-group"],
)
def test_a_batch_that_cannot_be_committed_in_part_is_aborted(
    messages: list[TaskMessage | None],
) -> None:
    ids = tuple(
        message.member.transactional_id for message in messages if message and message.member
    )
    assert aborted(messages, Stored(None), Done())[1:] == [
        AbortOpen(Step.ABORT_MEMBERS, 1, ids),
        Returned(committed=False),
    ]
