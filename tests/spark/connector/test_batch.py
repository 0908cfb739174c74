"""`spark.read` and `df.write` of the official connector."""

from __future__ import annotations

from tests.spark.connector.process import SparkProcess
from tests.spark.topics import Row, Topics

DAY_MS = 86_400_000
T0 = 1_700_000_000_000


def source(log: Topics, topic: str, **more: str) -> dict[str, str]:
    options = {"kafka.bootstrap.servers": log.bootstrap, "subscribe": topic}
    return options | {"kafka.isolation.level": "read_committed"} | more


def test_batch_read_has_every_column(connector: SparkProcess, log: Topics, topic: str) -> None:
    log.create(topic, partitions=2)
    rows = [
        Row(b"a\xff", b"k", 0, (("h", b"\x00"), ("h", None)), T0),
        Row(None, b"gone", 1, (), T0 + 1),
        Row(b"", None, 1, (), T0 + 2),
    ]
    log.append(topic, rows)
    options = source(log, topic, includeHeaders="true")
    names = [name for name, _ in connector.call("schema", options=options)]
    assert names == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    ]
    found = [tuple(row[name] for name in names) for row in connector.call("read", options=options)]
    headers = [{"key": "h", "value": "\x00"}, {"key": "h", "value": None}]
    assert sorted(found, key=lambda row: row[3:5]) == [
        ("k", "a\xff", topic, 0, 0, T0, 0, headers),
        ("gone", None, topic, 1, 0, T0 + 1, 0, None),
        (None, "", topic, 1, 1, T0 + 2, 0, None),
    ]
