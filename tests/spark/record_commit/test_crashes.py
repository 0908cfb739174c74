"""A process dies before or after each step of A-record. Each row is still written exactly once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.steps import STEPS, Step
from tests.spark.record_commit.query import Query

# The fail points that must come first, for steps that no undisturbed run reaches.
BEFORE: dict[str, str] = {
    Step.PLAN_ROLL_FORWARD: f"{Step.COMMIT_DECIDE}.after",
    Step.PLAN_JANITOR: f"{Step.COMMIT_DECIDE}.before",
    Step.COMMIT_LOSERS: f"{Step.TASK_HAND_OVER}.after",
    # The driver's JVM survives its worker and aborts.
    **dict.fromkeys([step for step in Step if step.startswith("abort.")], "commit.decide.before"),
}
# A task reaches this step if it fails without dying: see `test_drivers`.
UNREACHED = {Step.TASK_ABORT}
REACHED = [
    step for step, kinds in STEPS.items() if CommitKind.RECORD in kinds and step not in UNREACHED
]


@pytest.mark.parametrize("step", REACHED)
def test_a_process_that_dies_at_a_step_leaves_nothing_twice_and_nothing_lost(
    query: Query, visible: Callable[..., None], step: Step
) -> None:
    for batch_id, side in enumerate(("before", "after")):
        point = f"{step}.{side}"
        if step in BEFORE:
            query.fail_points.kill(BEFORE[step])
        query.fail_points.kill(point)
        query.run([batch_id], aborts=step.startswith("abort."))
        assert query.fail_points.reached(point), f"no process came to {point}"
    query.run([2])
    visible(0, 1, 2)


@pytest.mark.parametrize("first", ["commit.decide.after", "commit.end-members.after"])
@pytest.mark.parametrize("second", ["commit.done.before", "commit.done.after"])
def test_dead_again_while_it_rolls_forward(
    query: Query, visible: Callable[..., None], first: str, second: str
) -> None:
    query.fail_points.kill(first)
    query.fail_points.kill(second)
    assert query.run(range(2)) == 2
    visible(0, 1)


@pytest.mark.parametrize("point", ["commit.decide.after", "commit.end-members.after"])
def test_what_was_decided_is_not_aborted_by_spark(
    query: Query, visible: Callable[..., None], point: str
) -> None:
    query.fail_points.kill(point)
    assert query.run([0], aborts=True) == 1
    visible(0)


def test_what_was_not_decided_is_aborted_at_once(query: Query) -> None:
    """Readers do not wait for the next batch or for a timeout."""
    messages = query.write(query.plan(), 0)
    assert query.open_ids()
    query.abort(messages, 0)
    assert query.open_ids() == []
