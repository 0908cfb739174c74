"""The start of a task attempt, for each combination of facts that Spark may or may not pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_client.spark.sink.protocol.attempts import Attempt, Write, begin
from oncelog_client.spark.sink.protocol.messages import CommitKind, Plan, TaskMessage
from oncelog_client.spark.sink.protocol.refusals import Reason, Refusal
from oncelog_client.values import TransactionMember

PLAN = Plan("orders", CommitKind.GROUP, 3, TransactionMember("orders", 1, 0), "q", 8)
KNOWN = replace(PLAN, query_id="q")
VERSION = replace(PLAN, owner="app", query_id="app", batch_id=9)
ONCE = Plan("once", CommitKind.GROUP, 1, None, None, 0)


@pytest.mark.parametrize(
    ("plan", "attempt", "query_id"),
    [
        (PLAN, Attempt(0, "q", 8), "q"),
        (PLAN, Attempt(0, "q", 11), "q"),
        # The batch id is unknown, so the task writes its rows. The commit skips them if the batch
        # is done.
        (PLAN, Attempt(0, "q", None), "q"),
        (KNOWN, Attempt(0, None, None), "q"),
        # A batch write inside foreachBatch ignores the batch ids of the stream.
        (VERSION, Attempt(0, "q", 2), "app"),
        (ONCE, Attempt(0, None, None), None),
        (replace(PLAN, adopts=True), Attempt(0, "new", 0), "new"),
    ],
)
def test_a_batch_that_is_not_done_is_written(
    plan: Plan, attempt: Attempt, query_id: str | None
) -> None:
    assert begin(plan, attempt) == Write(query_id)


@pytest.mark.parametrize(
    ("plan", "attempt"),
    [(PLAN, Attempt(1, "q", 7)), (KNOWN, Attempt(1, None, 7)), (VERSION, Attempt(1, "q", 99))],
)
def test_a_batch_that_is_done_is_skipped(plan: Plan, attempt: Attempt) -> None:
    plan = replace(plan, done=20) if plan is VERSION else plan
    query_id = plan.query_id or attempt.query_id
    assert begin(plan, attempt) == TaskMessage(plan, query_id, 1, skipped=True)


@pytest.mark.parametrize(
    ("plan", "attempt", "reason"),
    [
        (PLAN, Attempt(0, "other", 8), Reason.NEW_CHECKPOINT),
        (PLAN, Attempt(0, "other", 0), Reason.NEW_CHECKPOINT),
        (replace(PLAN, adopts=True), Attempt(0, "other", 1), Reason.NEW_CHECKPOINT),
        (PLAN, Attempt(-1), Reason.UNKNOWN_QUERY),
        # Spark repeats only the last batch. This batch is older.
        (PLAN, Attempt(0, "q", 6), Reason.OLD_CHECKPOINT),
        (KNOWN, Attempt(0, None, 0), Reason.OLD_CHECKPOINT),
    ],
)
def test_a_query_that_may_not_write_is_refused(
    plan: Plan, attempt: Attempt, reason: Reason
) -> None:
    refusal = begin(plan, attempt)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is reason
