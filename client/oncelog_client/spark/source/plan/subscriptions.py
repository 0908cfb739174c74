"""The partitions to read: `subscribe`, `subscribePattern` or `assign`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from oncelog_client.spark.settings.options import OptionError, Options
from oncelog_client.values import TopicPartition

_ASSIGN_SHOWN: Final = '{"purchases":[0,1]}'
_NAMES: Final = ("subscribe", "subscribePattern", "assign")


class SourceSubscription(NamedTuple):
    """Topics, a pattern of topics, or partitions. Two of the three are always empty."""

    topics: frozenset[str] = frozenset()
    pattern: str = ""
    partitions: frozenset[TopicPartition] = frozenset()

    @property
    def named(self) -> frozenset[str]:
        """The topics that the options name, which must exist."""
        return self.topics | {partition.topic for partition in self.partitions}

    def wants(self, topic: str) -> bool:
        """Return True if partitions of the topic may be read."""
        if self.pattern:
            # A match anywhere in the name, as in Spark's own connector (`Regex.findFirstIn`).
            return re.search(self.pattern, topic) is not None
        return topic in self.named

    def chosen(self, counts: Mapping[str, int]) -> frozenset[TopicPartition]:
        """Return the subscribed partitions. `counts`: the number of partitions of each topic."""
        if self.partitions:
            return frozenset(
                partition
                for partition in self.partitions
                if partition.partition < counts.get(partition.topic, 0)
            )
        return frozenset(
            TopicPartition(topic, partition)
            for topic, count in counts.items()
            if self.wants(topic)
            for partition in range(count)
        )

    def __str__(self) -> str:
        if self.pattern:
            return f"topics like {self.pattern}"
        if self.partitions:
            return ", ".join(map(str, sorted(self.partitions)))
        return ", ".join(sorted(self.topics))


def read_subscription(options: Options) -> SourceSubscription:
    """Read exactly one of the three options. Raises OptionError."""
    given = [name for name in _NAMES if name in options]
    if len(given) != 1:
        count = "one" if not given else "only one"
        raise OptionError(" ".join(given) or _NAMES[0], None, f"{count} of {', '.join(_NAMES)}")
    text = options.required(given[0])
    if given[0] == "subscribe":
        topics = frozenset(name.strip() for name in text.split(",") if name.strip())
        if not topics:
            raise OptionError("subscribe", text, "names no topic")
        return SourceSubscription(topics=topics)
    if given[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError("subscribePattern", text, f"is no pattern: {error}") from None
        return SourceSubscription(pattern=text)
    return SourceSubscription(partitions=_assigned(options, text))


def _assigned(options: Options, text: str) -> frozenset[TopicPartition]:
    found = options.json_object("assign", _ASSIGN_SHOWN) or {}
    partitions: set[TopicPartition] = set()
    for topic, numbers in found.items():
        if not isinstance(numbers, list) or not all(
            type(number) is int and number >= 0 for number in numbers
        ):
            raise OptionError("assign", text, f"is no JSON such as {_ASSIGN_SHOWN}")
        partitions.update(TopicPartition(topic, number) for number in numbers)
    if not partitions:
        raise OptionError("assign", text, f"names no partition; such as {_ASSIGN_SHOWN}")
    return frozenset(partitions)
