"""A process dies before or after each step of a commit by record. Each row is still written exactly
once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.steps import STEPS, Step
from tests.spark.record_commit.query import Query

# For each step that no undisturbed run reaches: the fail point at which a process must die first.
BEFORE: dict[str, str] = {
    Step.PLAN_ROLL_FORWARD: f"{Step.COMMIT_DECIDE}.after",
    Step.PLAN_JANITOR: f"{Step.COMMIT_DECIDE}.before",
    Step.COMMIT_LOSERS: f"{Step.TASK_HAND_OVER}.after",
    # The Python worker dies while it commits. The driver's JVM survives and aborts.
    **dict.fromkeys([step for step in Step if step.startswith("abort.")], "commit.decide.before"),
}
# A task reaches this step if it fails without dying: see `test_drivers`.
UNREACHED = {Step.TASK_ABORT}
REACHED = [
    step for step, kinds in STEPS.items() if CommitKind.RECORD in kinds and step not in UNREACHED
]


@pytest.mark.parametrize("step", REACHED)
def test_no_row_is_lost_or_written_twice_if_a_process_dies_at_a_step(
    query: Query, visible: Callable[..., None], step: Step
) -> None:
    for batch_id, side in enumerate(("before", "after")):
        point = f"{step}.{side}"
        if step in BEFORE:
            query.fail_points.kill(BEFORE[step])
        query.fail_points.kill(point)
        query.run([batch_id], aborts=step.startswith("abort."))
        assert query.fail_points.reached(point), f"no process reached {point}"
    query.run([2])
    visible(0, 1, 2)


@pytest.mark.parametrize("first", ["commit.decide.after", "commit.end-members.after"])
@pytest.mark.parametrize("second", ["commit.done.before", "commit.done.after"])
def test_a_second_death_during_the_roll_forward_loses_no_row(
    query: Query, visible: Callable[..., None], first: str, second: str
) -> None:
    query.fail_points.kill(first)
    query.fail_points.kill(second)
    assert query.run(range(2)) == 2
    visible(0, 1)


@pytest.mark.parametrize("point", ["commit.decide.after", "commit.end-members.after"])
def test_an_abort_by_spark_does_not_abort_a_decided_batch(
    query: Query, visible: Callable[..., None], point: str
) -> None:
    query.fail_points.kill(point)
    assert query.run([0], aborts=True) == 1
    visible(0)


def test_an_undecided_batch_is_aborted_at_once(query: Query) -> None:
    """Readers do not wait for the next batch or for a timeout."""
    messages = query.write(query.plan(), 0)
    assert query.open_ids()
    query.abort(messages, 0)
    assert query.open_ids() == []
