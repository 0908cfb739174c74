"""Run a pipeline into a fault and to its end, while a reader watches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.audit import Sighting, Verdict, judge, planned_batches
from tests.spark.pipeline import PARTITIONS, Pipeline
from tests.spark.topics import Row, Topics
from tests.spark.watcher import Watcher

RUN_TIMEOUT_S: Final = 90
VISIBLE_TIMEOUT_S: Final = 30.0


class StillRunning(Exception):
    """A query did not end in time."""


def append_purchases(pipeline: Pipeline, count: int) -> None:
    """Append `count` purchases to the partitions in turn."""
    rows = [Row(b"purchase", partition=number % PARTITIONS) for number in range(count)]
    Topics(pipeline.bootstrap).append(pipeline.purchases, rows)


def run(pipeline: Pipeline, session: SparkSession) -> str | None:
    """Run the pipeline until it has processed the existing purchases. Return the exception that
    ended it early, or None."""
    return to_its_end(pipeline.start(session))


def to_its_end(query: StreamingQuery) -> str | None:
    """Wait for the end of a running pipeline. Return the exception that ended it early, or None."""
    try:
        if not query.awaitTermination(RUN_TIMEOUT_S):
            raise StillRunning(f"{query.id} after {RUN_TIMEOUT_S} s: {query.status}")
    except StreamingQueryException as error:
        return str(error)
    finally:
        query.stop()
    return None


class Audit:
    """The reader of a pipeline's invoices and shipments, and the comparison with the plan."""

    def __init__(self, pipeline: Pipeline, watcher: Watcher) -> None:
        self._pipeline = pipeline
        self._watcher = watcher

    def verdict(self) -> Verdict:
        """Return the verdict on every planned row. No pipeline may run meanwhile."""
        return judge(self._batches(), self._watcher.caught_up())

    def assert_exactly_once(self, purchases: int, *, atomic: bool = True) -> None:
        """Check that the rows of this number of purchases have no duplicate and no loss. With
        `atomic`, also check that no batch was visible in part. Without `atomic`, wait for late
        rows, because Kafka responds to EndTxn before it has written the markers.

        Several brokers never write their markers at one moment, so their batches are not atomic
        for a reader of several partitions.
        """
        atomic = atomic and "," not in self._pipeline.bootstrap
        assert sum(map(len, self._batches().values())) == 2 * purchases
        verdict = self.verdict()
        deadline = time.monotonic() + VISIBLE_TIMEOUT_S
        while verdict.losses and not atomic and time.monotonic() < deadline:
            verdict = self.verdict()
        assert not any(verdict[:3]), verdict
        if atomic:
            assert not verdict.partial, verdict.partial

    def _batches(self) -> dict[int, frozenset[Sighting]]:
        return planned_batches(
            self._pipeline.checkpoint, self._pipeline.purchases, _outputs(self._pipeline)
        )


@contextmanager
def audited(pipeline: Pipeline) -> Iterator[Audit]:
    """Create the pipeline's topics, and yield its audit. A reader watches from the beginning."""
    pipeline.create_topics()
    with Watcher(pipeline.bootstrap, _outputs(pipeline)) as watcher:
        yield Audit(pipeline, watcher)


def _outputs(pipeline: Pipeline) -> Sequence[str]:
    return pipeline.invoices, pipeline.shipments
