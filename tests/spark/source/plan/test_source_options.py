"""All options of a source are checked before any request to a broker."""

from __future__ import annotations

import pickle

import pytest

from oncelog_client.spark.settings.options import OptionError, Options
from oncelog_client.spark.source.plan.source_options import (
    SourceOptions,
    include_headers,
    source_options,
)

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}


def read(given: dict[str, str], *, streaming: bool = True) -> SourceOptions:
    return source_options(Options(LEAST | given), streaming=streaming)


def test_the_defaults_are_those_of_sparks_kafka_source_except_for_the_isolation_level() -> None:
    found = read({})
    assert found.read_committed
    assert found.fail_on_data_loss
    assert found.max_trigger_delay_ms == 900_000
    assert found.poll_timeout_ms == 120_000
    assert (found.fetch_retries, found.fetch_retry_interval_ms) == (3, 1_000)
    assert (found.max_offsets, found.min_offsets) == (None, None)
    assert (found.min_partitions, found.max_records) == (None, None)
    assert not include_headers(Options(LEAST))
    assert found.remarks == ()


def test_every_option_is_read() -> None:
    given = {
        "maxOffsetsPerTrigger": "9",
        "minOffsetsPerTrigger": "8",
        "maxTriggerDelay": "7s",
        "minPartitions": "6",
        "maxRecordsPerPartition": "5",
        "failOnDataLoss": "false",
        "kafkaConsumer.pollTimeoutMs": "4",
        "fetchOffset.numRetries": "2",
        "fetchOffset.retryIntervalMs": "1",
        "commitOffsetsToGroup": "g",
        "startingOffsetsByTimestampStrategy": "latest",
        "kafka.isolation.level": "read_uncommitted",
    }
    found = read(given)
    assert (found.max_offsets, found.min_offsets, found.max_trigger_delay_ms) == (9, 8, 7_000)
    assert (found.min_partitions, found.max_records, found.poll_timeout_ms) == (6, 5, 4)
    assert (found.fetch_retries, found.fetch_retry_interval_ms) == (2, 1)
    assert (found.commit_to_group, found.latest_where_no_match) == ("g", True)
    assert not found.fail_on_data_loss
    assert not found.read_committed
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets"),
        ({"endingTimestamp": "1"}, "endingTimestamp"),
        ({"endingOffsetsByTimestamp": '{"t":{"0":1}}'}, "endingOffsetsByTimestamp"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "minOffsetsPerTrigger"),
        ({"minPartitions": "0"}, "minPartitions"),
        ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition"),
        ({"commitOffsetsToGroup": ""}, "commitOffsetsToGroup"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss"),
        ({"startingOffsetsByTimestampStrategy": "first"}, "startingOffsetsByTimestampStrategy"),
        ({"assign": '{"t":[0]}'}, "subscribe assign"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset"),
    ],
)
def test_an_option_that_a_stream_does_not_support_is_refused(
    given: dict[str, str], name: str
) -> None:
    with pytest.raises(OptionError) as caught:
        read(given)
    assert caught.value.name == name


def test_an_option_without_effect_on_a_batch_query_is_reported() -> None:
    given = {"maxOffsetsPerTrigger": "9", "maxTriggerDelay": "1s", "commitOffsetsToGroup": "g"}
    assert read(given, streaming=False).remarks == (
        "maxOffsetsPerTrigger has no effect on a batch",
        "maxTriggerDelay has no effect on a batch",
        "commitOffsetsToGroup has no effect on a batch",
    )
