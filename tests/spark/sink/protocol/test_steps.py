"""The table of fail points."""

from __future__ import annotations

from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.steps import STEPS, Step, fail_points


def test_every_step_has_a_row_and_two_fail_points() -> None:
    assert set(STEPS) == set(Step)
    for kind in CommitKind:
        points = fail_points(kind)
        assert len(set(points)) == len(points)
        assert points[:2] == ("plan.read.before", "plan.read.after")
    assert "commit.stage.before" in fail_points(CommitKind.GROUP)
    assert "commit.stage.before" not in fail_points(CommitKind.RECORD)
