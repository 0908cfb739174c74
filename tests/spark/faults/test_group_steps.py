"""Sinks on oncelog that decide all tasks of a batch at once. A process dies before and after every
step of the protocol, and the query restarts from its checkpoint."""

from __future__ import annotations

import pytest

from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.steps import STEPS, Step
from tests.spark.faults.line import Line

pytestmark = pytest.mark.parametrize("lines", ["group"], indirect=True)


@pytest.mark.parametrize("step", [step for step in STEPS if CommitKind.GROUP in STEPS[step]])
def test_a_batch_is_visible_once_and_never_in_part_after_kills_around_a_step(
    line: Line, step: Step
) -> None:
    line.kill_at(step, "before")
    line.kill_at(step, "after")
    line.go_on()
