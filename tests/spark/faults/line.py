"""A pipeline that is killed at one fail point after another, with an audit after each kill."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.steps import Step
from tests.spark.fail_points import FailPoints
from tests.spark.faults.late_attempt import write_late
from tests.spark.faults.roads import road_to
from tests.spark.faults.running import Audit, append_purchases, run
from tests.spark.pipeline import Pipeline

# The purchases of one micro-batch, from both partitions.
PURCHASES = 6


class Line:
    """A pipeline with its audit. `kind` is the way in which the sink commits. For GROUP, `go_on`
    also checks that no reader sees a part of a batch. If `failed` is True, a call has failed and
    the line cannot be used any more."""

    def __init__(
        self,
        pipeline: Pipeline,
        audit: Audit,
        session: SparkSession,
        fail_points: FailPoints,
        kind: CommitKind,
    ) -> None:
        self.failed = False
        self._pipeline = pipeline
        self._audit = audit
        self._session = session
        self._fail_points = fail_points
        self._kind = kind
        self._purchases = 0

    def go_on(self) -> None:
        """Add purchases, run without faults, and check that each row is visible exactly once."""
        self.failed = True
        self._append()
        outcome = run(self._pipeline, self._session)
        assert outcome is None, outcome
        self._audit.assert_exactly_once(self._purchases, atomic=self._kind is CommitKind.GROUP)
        self.failed = False

    def kill_at(self, step: Step, side: str) -> None:
        """Run the pipeline with the faults that lead to the step, and kill the process there.
        `side`: before or after the step. Raises AssertionError if no process reaches the step."""
        point, road = f"{step}.{side}", road_to(step, self._kind)
        if road.late_attempt:
            self.go_on()
            write_late(self._pipeline)
        self.failed = True
        if road.before:
            self._kill(road.before)
        self._kill((*road.along, point), poisoned=road.poisoned)
        self.failed = False

    def _kill(self, points: Iterable[str], *, poisoned: bool = False) -> None:
        self._append()
        for point in points:
            self._fail_points.kill(point)
        outcome = run(self._pipeline._replace(poisoned=poisoned), self._session)
        missed = [point for point in points if self._fail_points.reached(point) is None]
        self._fail_points.clear()
        assert not missed, f"no process reached {missed}; the exception of the run: {outcome}"

    def _append(self) -> None:
        append_purchases(self._pipeline, PURCHASES)
        self._purchases += PURCHASES
