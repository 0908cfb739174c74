"""Where `--reset-offsets` and `--offset` point to: the notations of Kafka's tools."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import click

from oncelog_client.values import TopicPartition

_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_SECONDS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


def parse_scope(topics: Iterable[str]) -> dict[str, list[int]]:
    """`topic` or `topic:0,1,2` as topic -> partitions; an empty list stands for all of them.

    Raises click.UsageError for a partition that is no number.
    """
    scope: dict[str, list[int]] = {}
    for text in topics:
        topic, colon, numbers = text.rpartition(":")
        if not colon:
            scope[text] = []
            continue
        try:
            scope[topic] = [int(number) for number in numbers.split(",")]
        except ValueError:
            raise click.UsageError(f"{text!r} is not topic or topic:0,1,2") from None
    return scope


def in_scope(scope: dict[str, list[int]], partition: TopicPartition) -> bool:
    """Whether `--topic` names this partition; no `--topic` at all names every one."""
    if not scope:
        return True
    numbers = scope.get(partition.topic)
    return numbers is not None and (not numbers or partition.partition in numbers)


def parse_datetime(text: str) -> int:
    """`2026-11-21T06:00:00.000`, UTC unless it names a zone, as milliseconds since the epoch."""
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{text!r} is not YYYY-MM-DDTHH:mm:SS.sss") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def parse_duration(text: str) -> int:
    """`P1DT2H30M5S` (ISO 8601) as milliseconds."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groupdict().values()):
        raise click.UsageError(f"{text!r} is not a duration such as PT1H or P1DT30M")
    parts = {unit: float(value) for unit, value in match.groupdict().items() if value}
    return round(sum(_SECONDS[unit] * value for unit, value in parts.items()) * 1000)
