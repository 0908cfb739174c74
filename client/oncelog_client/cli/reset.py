"""The partitions of `--topic` and the targets of `--reset-offsets`, in the notations of Kafka's
tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from oncelog_client.cli.names import INT32_MAX
from oncelog_client.core.iso_duration import parse_iso_duration
from oncelog_client.values import TopicPartition


def parse_scope(topics: Iterable[str]) -> dict[str, list[int]]:
    """Parse `topic` or `topic:0,1,2` into topic -> partitions. An empty list means all partitions.

    Several entries of a topic are merged. Raises click.UsageError for any other text.
    """
    scope: dict[str, list[int]] = {}
    for text in topics:
        topic, colon, numbers = text.rpartition(":")
        if not colon:
            scope[text] = []
            continue
        try:
            found = [int(number) for number in numbers.split(",")]
        except ValueError:
            found = [-1]
        if not topic or not all(0 <= number <= INT32_MAX for number in found):
            raise click.UsageError(f"{text[:80]!r} is not topic or topic:0,1,2")
        if scope.get(topic) != []:
            scope[topic] = sorted({*scope.get(topic, []), *found})
    return scope


def in_scope(scope: dict[str, list[int]], partition: TopicPartition) -> bool:
    """Return True if `--topic` names this partition. Without `--topic`, the result is True for
    every partition."""
    if not scope:
        return True
    numbers = scope.get(partition.topic)
    return numbers is not None and (not numbers or partition.partition in numbers)


def kept_within(
    wanted: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> tuple[dict[TopicPartition, int], list[str]]:
    """Return the `wanted` offsets. An offset before the start or after the end of its log is
    replaced by the start or the end. Also return a warning for each replaced offset, in the words
    of Kafka's tool."""
    moved: dict[TopicPartition, int] = {}
    warnings = []
    for place, offset in wanted.items():
        moved[place] = min(max(offset, starts[place]), ends[place])
        if moved[place] != offset:
            beyond = "higher than latest" if offset > ends[place] else "lower than earliest"
            warnings.append(
                f"New offset ({offset}) is {beyond} offset for topic partition {place}. Value will"
                f" be set to {moved[place]}"
            )
    return moved, warnings


def parse_datetime(text: str) -> int:
    """Return `2026-11-21T06:00:00.000`, UTC unless it names a zone, as ms since the epoch."""
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{text[:80]!r} is not YYYY-MM-DDTHH:mm:SS.sss") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def parse_duration(text: str) -> int:
    """Return `P1DT2H30M5S` (ISO 8601) as milliseconds."""
    duration_ms = parse_iso_duration(text)
    if duration_ms is None:
        raise click.UsageError(f"{text[:80]!r} is not a duration such as PT1H or P1DT30M")
    return duration_ms
