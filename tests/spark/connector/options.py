"""Options of Spark's own Kafka connector, as its users write them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.spark.connector.log import Log

Options = dict[str, str]


def source(log: Log, topic: str, **more: str) -> Options:
    """Return options to read the committed records of one topic."""
    return anywhere(log, subscribe=topic, **more)


def anywhere(log: Log, **more: str) -> Options:
    """Return options to read committed records. The keyword arguments name the topics."""
    options = {"kafka.bootstrap.servers": log.bootstrap}
    return options | {"kafka.isolation.level": "read_committed"} | more


def sink(log: Log, topic: str | None = None, **more: str) -> Options:
    """Return options to write. Without `topic`, each row names its topic."""
    options = {"kafka.bootstrap.servers": log.bootstrap}
    return options | ({} if topic is None else {"topic": topic}) | more


def by_partition(topic: str, numbers: Mapping[int, int]) -> str:
    """Return offsets or timestamps as JSON, as `startingOffsets` and similar options expect."""
    return json.dumps({topic: {str(partition): number for partition, number in numbers.items()}})
