"""Another attempt of a stage: tasks whose attempt number is 0 again, beside those that still run.

PySpark does not tell a task the attempt of its stage, so nothing that an executor can look at tells
the two apart.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark.sql import Row, SparkSession
from pyspark.taskcontext import TaskContext

from tests.broker import Oncelog
from tests.spark.session import Spark
from tests.spark.topics import Topics

ROWS = 8
PARTITIONS = 4
DEADLINE_S = 60.0


class Sabotage:
    """Passes rows on, and has the stage fail while one of its tasks still runs.

    The task of the first partition removes what the shuffle has written, so that the third, which
    comes later, cannot read it. The second waits until another attempt of it has come to its end.
    """

    def __init__(self, shuffles: Path, notes: Path) -> None:
        self._shuffles = shuffles
        self._notes = notes

    def __call__(self, rows: Iterable[Row]) -> Iterator[Row]:
        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        mine = self._notes / f"{partition}.{context.taskAttemptId()}"
        is_first = not any(self._notes.glob(f"{partition}.*"))
        mine.write_text(str(context.attemptNumber()))
        yield from rows
        if is_first and partition == 0:
            self._wait_for("1.*", 1)
            for file in self._shuffles.glob("**/shuffle_*"):
                file.unlink()
        elif is_first and partition == 1:
            self._wait_for("1.*", 2)
            self._wait_for("1.*.read", 1)
        if partition == 1 and not is_first:
            mine.with_name(f"{mine.name}.read").touch()

    def _wait_for(self, pattern: str, count: int) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while len(list(self._notes.glob(pattern))) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{pattern} {count} times")
            time.sleep(0.02)


def test_of_two_attempts_of_a_stage_each_row_is_written_by_one(
    spark: SparkSession,
    spark_driver: Spark,
    broker: Oncelog,
    topics: Topics,
    name: str,
    tmp_path: Path,
) -> None:
    topics.create(name)
    notes = tmp_path / "notes"
    notes.mkdir()
    shuffled = spark.range(0, ROWS, 1, 2).repartition(PARTITIONS)
    rows = shuffled.selectExpr("cast(id as string) as value").rdd
    sabotaged = rows.mapPartitions(Sabotage(spark_driver.directory / "local", notes))
    (
        spark.createDataFrame(sabotaged, "value string")
        .write.format("oncelog")
        .mode("append")
        .option("kafka.bootstrap.servers", broker.address)
        .options(topic=name, txnAppId=name, txnVersion="0")
        .save()
    )
    attempts = [path for path in notes.glob("1.*") if path.suffix != ".read"]
    assert [path.read_text() for path in attempts] == ["0", "0"]
    assert sorted(value or b"" for value in topics.values(name)) == [
        b"%d" % number for number in range(ROWS)
    ]
    # What the other attempt has written is aborted.
    assert topics.end_offsets(name) == topics.end_offsets(name, committed=False)
