"""A sink on Apache Kafka, which decides a batch by a record (`CommitKind.RECORD`). A process dies
before and after every step of the protocol, and the query restarts from its checkpoint."""

from __future__ import annotations

import pytest

from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.steps import STEPS, Step
from tests.spark.faults.line import Line

pytestmark = pytest.mark.parametrize("lines", ["kafka"], indirect=True)


@pytest.mark.parametrize("step", [step for step in STEPS if CommitKind.RECORD in STEPS[step]])
def test_every_row_is_visible_once_after_kills_around_a_step(line: Line, step: Step) -> None:
    line.kill_at(step, "before")
    line.kill_at(step, "after")
    line.go_on()
