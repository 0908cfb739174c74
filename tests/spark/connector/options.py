"""Options of the official connector, as its users write them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.spark.connector.log import Log

Options = dict[str, str]


def source(log: Log, topic: str, **more: str) -> Options:
    """Return options to read the committed records of one topic."""
    return anywhere(log, subscribe=topic, **more)


def anywhere(log: Log, **more: str) -> Options:
    """Return options to read committed records; `more` names the topics."""
    options = {"kafka.bootstrap.servers": log.bootstrap}
    return options | {"kafka.isolation.level": "read_committed"} | more


def sink(log: Log, topic: str | None = None, **more: str) -> Options:
    """Return options to write, into one topic unless the rows name theirs."""
    options = {"kafka.bootstrap.servers": log.bootstrap}
    return options | ({} if topic is None else {"topic": topic}) | more


def by_partition(topic: str, numbers: Mapping[int, int]) -> str:
    """Return offsets or timestamps in the form of `startingOffsets` and similar options."""
    return json.dumps({topic: {str(partition): number for partition, number in numbers.items()}})
