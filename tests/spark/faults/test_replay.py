"""Spark repeats a committed batch. The sink does not write its rows a second time."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.faults.running import append_purchases, audited, run
from tests.spark.pipeline import Pipeline
from tests.spark.topics import Topics


def last_commit(pipeline: Pipeline) -> Path:
    files = [file for file in Path(pipeline.checkpoint, "commits").iterdir() if file.name.isdigit()]
    return max(files, key=lambda file: int(file.name))


def test_a_batch_with_a_lost_commit_log_entry_is_skipped(
    spark: SparkSession, pipeline: Pipeline
) -> None:
    with audited(pipeline) as audit:
        append_purchases(pipeline, 12)
        assert run(pipeline, spark) is None
        topics = Topics(pipeline.bootstrap)
        written = topics.end_offsets(pipeline.invoices, committed=False)
        entry = last_commit(pipeline)
        entry.unlink()
        entry.with_name(f".{entry.name}.crc").unlink()
        assert run(pipeline, spark) is None
        assert entry.exists()
        assert topics.end_offsets(pipeline.invoices, committed=False) == written
        append_purchases(pipeline, 4)
        assert run(pipeline, spark) is None
        audit.assert_exactly_once(16)


def test_the_first_batch_with_rows_is_skipped_too(spark: SparkSession, pipeline: Pipeline) -> None:
    with audited(pipeline) as audit:
        append_purchases(pipeline, 2)
        assert run(pipeline, spark) is None
        entry = last_commit(pipeline)
        entry.unlink()
        entry.with_name(f".{entry.name}.crc").unlink()
        append_purchases(pipeline, 2)
        assert run(pipeline, spark) is None
        audit.assert_exactly_once(4)
