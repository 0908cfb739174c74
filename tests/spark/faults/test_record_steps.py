"""Sinks on oncelog that decide a batch by a record, as on any other broker. A process dies before
and after the decision, and before and after each step that only a decision by a record has."""

from __future__ import annotations

import pytest

from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.steps import STEPS, Step
from tests.spark.faults.line import Line

pytestmark = pytest.mark.parametrize("lines", ["record"], indirect=True)

# On oncelog, decisions by a record and decisions by group differ only in these steps. At all other
# steps, test_group_steps.py kills processes on oncelog, and test_kafka_steps.py kills processes of
# sinks that decide by a record.
OWN = [step for step in STEPS if STEPS[step] == {CommitKind.RECORD} or step is Step.COMMIT_DECIDE]


@pytest.mark.parametrize("step", OWN)
def test_every_row_is_visible_once_after_kills_around_a_step(line: Line, step: Step) -> None:
    line.kill_at(step, "before")
    line.kill_at(step, "after")
    line.go_on()
