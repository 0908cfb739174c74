"""The progress that Spark reports for a micro-batch is read, and is formatted as one line of
text."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_client.spark.offsets.offsets import (
    EARLIEST,
    LATEST,
    AtEdge,
    start_symbol,
    to_json,
    whole_stream,
)
from oncelog_client.spark.offsets.progress import PartitionProgress, batch_progress, progress_line
from oncelog_client.values import TopicPartition


def progress(*sources: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the progress of a micro-batch as Spark's JSON, with only the parts that
    `batch_progress` reads."""
    return {
        "name": "bills",
        "batchId": 7,
        "numInputRows": 150,
        "durationMs": {"triggerExecution": 500},
        "sources": [*sources],
        **more,
    }


SOURCE = {
    "startOffset": {"purchases": {"0": 100, "1": 40}},
    "endOffset": {"purchases": {"0": 200, "1": 90}},
    "latestOffset": {"purchases": {"0": 260, "1": 90}},
}


def test_lag_and_rate_of_each_partition_follow_from_its_offsets() -> None:
    batch = batch_progress(progress(SOURCE))
    assert batch.partitions == (
        PartitionProgress("purchases", 0, start=100, end=200, latest=260, seconds=0.5),
        PartitionProgress("purchases", 1, start=40, end=90, latest=90, seconds=0.5),
    )
    assert [partition.lag for partition in batch.partitions] == [60, 0]
    assert [partition.rate for partition in batch.partitions] == [200.0, 100.0]
    assert (batch.lags, batch.rows_per_second) == ((60, 0), 300.0)


def test_metrics_have_the_names_and_values_of_sparks_own_connector() -> None:
    assert batch_progress(progress(SOURCE)).metrics() == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "60",
        "avgOffsetsBehindLatest": "30.0",
    }


def test_offsets_may_be_text() -> None:
    as_text = {name: str(offsets).replace("'", '"') for name, offsets in SOURCE.items()}
    assert batch_progress(progress(as_text)) == batch_progress(progress(SOURCE))


def test_the_lag_of_a_new_partition_is_its_whole_log() -> None:
    source = SOURCE | {"latestOffset": {"purchases": {"0": 260, "1": 90, "2": 5}}}
    new = batch_progress(progress(source)).partitions[2]
    assert (new.partition, new.start, new.end, new.lag) == (2, 0, 0, 5)


def test_lag_is_0_if_a_batch_ends_after_the_reported_latest_offset() -> None:
    source = SOURCE | {"latestOffset": {"purchases": {"0": 150, "1": 90}}}
    assert batch_progress(progress(source)).lags == (0, 0)


def test_the_partitions_of_several_sources_are_combined() -> None:
    other = {
        "startOffset": {"refunds": {"0": 0}},
        "endOffset": {"refunds": {"0": 10}},
        "latestOffset": {"refunds": {"0": 11}},
    }
    batch = batch_progress(progress(SOURCE, other))
    assert [partition.topic for partition in batch.partitions] == [
        "purchases",
        "purchases",
        "refunds",
    ]
    assert batch.lags == (60, 0, 1)


@pytest.mark.parametrize(
    "offset", [None, 12, "12", '{"logOffset":3}', {"logOffset": 3}, "what?", []]
)
def test_a_source_of_another_format_has_no_partitions(offset: Any) -> None:
    source = dict.fromkeys(("startOffset", "endOffset", "latestOffset"), offset)
    batch = batch_progress(progress(source))
    assert batch.partitions == ()
    assert batch.metrics() == {}
    assert progress_line(batch) == "bills: batch 7, 150 rows in 0.50 s (300/s)"


def test_the_start_of_a_query_is_not_read_as_an_offset() -> None:
    """The start of a query's first batch is a symbol for the starting position. It has no offsets
    of partitions."""
    source = {"startOffset": start_symbol(AtEdge(LATEST)), "endOffset": {"purchases": {"0": 8}}}
    (partition,) = batch_progress(progress(source)).partitions
    assert (partition.start, partition.end, partition.rate, partition.lag) == (8, 8, 0.0, None)


def test_a_first_batch_that_contains_its_start_has_partitions() -> None:
    """Usually the first batch of a query is empty, and its end stores the offsets at which the
    query starts. With `Trigger.Once`, the first batch has records, so its end contains both
    offsets."""
    start, end = {TopicPartition("purchases", 0): 3}, {TopicPartition("purchases", 0): 8}
    source = {
        "startOffset": start_symbol(AtEdge(EARLIEST)),
        "endOffset": whole_stream(start, end),
        "latestOffset": to_json(end),
    }
    (partition,) = batch_progress(progress(source)).partitions
    assert (partition.topic, partition.start, partition.end, partition.lag) == (
        "purchases",
        3,
        8,
        0,
    )


def test_no_lag_is_reported_if_spark_did_not_request_the_latest_offsets() -> None:
    """Spark does not request them for a batch that it repeats after a restart. A lag of 0 would be
    wrong there."""
    repeated = {name: offsets for name, offsets in SOURCE.items() if name != "latestOffset"}
    for latest in ({}, {"latestOffset": None}):
        batch = batch_progress(progress(repeated | latest))
        assert [partition.rate for partition in batch.partitions] == [200.0, 100.0]
        assert (batch.lags, batch.metrics()) == ((), {})
        assert "lag" not in progress_line(batch)


def test_the_line_names_the_partition_with_the_largest_lag() -> None:
    assert progress_line(batch_progress(progress(SOURCE))) == (
        "bills: batch 7, 150 rows in 0.50 s (300/s), lag 60, most in purchases-0: 60"
    )
    nothing_left = SOURCE | {"latestOffset": SOURCE["endOffset"]}
    assert progress_line(batch_progress(progress(nothing_left))).endswith(", lag 0")


def test_a_query_without_a_name_or_a_duration_has_a_line_too() -> None:
    batch = batch_progress(progress(SOURCE, name=None, durationMs={}))
    assert progress_line(batch).startswith("query: batch 7, 150 rows in 0.00 s (0/s), lag 60")
