"""Another attempt of a stage. Its tasks have attempt number 0 again, while tasks of the first
attempt still run.

PySpark does not pass a stage's attempt number to a task, so an executor cannot distinguish the two
attempts.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.harness.broker import Oncelog
from tests.spark.session import Spark
from tests.spark.sink.sabotage import Sabotage
from tests.spark.topics import Topics

ROWS = 8
PARTITIONS = 4


def test_each_row_is_written_by_one_of_two_attempts_of_a_stage(
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
    # In the second attempt of the stage, Spark may deny a task its commit. It then repeats the task
    # with attempt number 1, 2, …. So only the attempts with number 0 are counted.
    numbers = sorted(int(path.read_text()) for path in attempts)
    assert numbers == [0, 0, *range(1, len(numbers) - 1)]
    assert sorted(value or b"" for value in topics.values(name)) == [
        b"%d" % number for number in range(ROWS)
    ]
    # The rows of the other attempt are aborted.
    assert topics.end_offsets(name) == topics.end_offsets(name, committed=False)
