"""The notations of Kafka's tools for partitions, times and durations."""

from __future__ import annotations

import click
import pytest

from oncelog_client.cli.reset import in_scope, parse_datetime, parse_duration, parse_scope
from oncelog_client.values import TopicPartition


def test_a_scope_names_topics_or_some_of_their_partitions() -> None:
    scope = parse_scope(["orders", "bills:0,2"])
    assert scope == {"orders": [], "bills": [0, 2]}
    assert in_scope(scope, TopicPartition("orders", 7))
    assert in_scope(scope, TopicPartition("bills", 2))
    assert not in_scope(scope, TopicPartition("bills", 1))
    assert not in_scope(scope, TopicPartition("other", 0))


def test_an_empty_scope_has_every_partition() -> None:
    assert in_scope({}, TopicPartition("orders", 0))


def test_a_partition_that_is_no_number_is_a_usage_error() -> None:
    with pytest.raises(click.UsageError, match="bills:x"):
        parse_scope(["bills:x"])


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("1970-01-01T00:00:01.500", 1_500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_a_datetime_without_an_offset_is_utc(text: str, timestamp_ms: int) -> None:
    assert parse_datetime(text) == timestamp_ms


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("PT1H", 3_600_000),
        ("P1DT30M", 88_200_000),
        ("PT0.5S", 500),
        ("PT0S", 0),
        ("P2D", 172_800_000),
    ],
)
def test_a_duration_is_iso_8601(text: str, duration_ms: int) -> None:
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize("text", ["P", "PT", "1H", "PT1X", ""])
def test_an_invalid_duration_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.UsageError):
        parse_duration(text)


def test_an_invalid_datetime_is_a_usage_error() -> None:
    with pytest.raises(click.UsageError):
        parse_datetime("yesterday")
