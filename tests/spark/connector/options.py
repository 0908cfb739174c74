"""Options of the official connector, as its users write them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.spark.connector.log import Log

Options = dict[str, str]


def source(log: Log, topic: str, **more: str) -> Options:
    """A read of one topic, committed records only."""
    return anywhere(log, subscribe=topic, **more)


def anywhere(log: Log, **more: str) -> Options:
    """A read of committed records; `more` says of which topics."""
    options = {"kafka.bootstrap.servers": log.bootstrap}
    return options | {"kafka.isolation.level": "read_committed"} | more


def sink(log: Log, topic: str | None = None, **more: str) -> Options:
    """A write, into one topic unless the rows say where."""
    options = {"kafka.bootstrap.servers": log.bootstrap}
    return options | ({} if topic is None else {"topic": topic}) | more


def by_partition(topic: str, numbers: Mapping[int, int]) -> str:
    """Offsets or timestamps as `startingOffsets` and its like have them."""
    return json.dumps({topic: {str(partition): number for partition, number in numbers.items()}})
