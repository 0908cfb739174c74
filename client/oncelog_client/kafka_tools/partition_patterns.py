"""Patterns of topic partitions on a command line: `orders:0-3,bills,.*:7`."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from oncelog_client.kafka_tools.failures import JavaError
from oncelog_client.kafka_tools.topic_names import topic_pattern

_EVERY_TOPIC: Final = ".*"
_FORM: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")


@dataclass(frozen=True, slots=True)
class PartitionPattern:
    """Topics by an expression, and their partitions: `numbers`, or from `first` to before `end`.
    None stands for no limit."""

    topic: re.Pattern[str]
    numbers: Set[int] | None = None
    first: int | None = None
    end: int | None = None

    @classmethod
    def of_topic(cls, text: str | None, numbers: Set[int] | None) -> PartitionPattern:
        """Return the pattern for the topics of a `--topic`, with these partitions or all."""
        return cls(topic_pattern(_EVERY_TOPIC if text is None else text), numbers)

    def matches(self, topic: str, partition: int) -> bool:
        """Return whether the pattern has the partition."""
        return (
            self.topic.fullmatch(topic) is not None
            and (self.numbers is None or partition in self.numbers)
            and (self.first is None or partition >= self.first)
            and (self.end is None or partition < self.end)
        )


def patterns_of(text: str) -> list[PartitionPattern]:
    """Return the patterns of a list that commas separate. Raises JavaError for another form."""
    return [_pattern(part) for part in text.split(",")]


def _pattern(text: str) -> PartitionPattern:
    form = _FORM.fullmatch(text)
    if form is None:
        raise JavaError("java.lang.RuntimeException", f"Invalid rule specification: {text}")
    topic = topic_pattern(form[1] or _EVERY_TOPIC)
    if form[2]:
        return PartitionPattern(topic, frozenset({int(form[2])}))
    first, end = (int(number) if number else None for number in (form[3], form[4]))
    return PartitionPattern(topic, None, first, end)
