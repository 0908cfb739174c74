"""One of the two brokers, with the topics and the group that the random requests name."""

from __future__ import annotations

import re
import time
import uuid
from typing import Any, Final

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_protocol.schema import schema_of
from oncelog_protocol.types import ZERO_UUID
from tests.harness.waiting import wait_until
from tests.harness.writing import find_coordinator, produce

TIMEOUT_MS: Final = 20_000
# Fields that differ between any two brokers, and those that tell the size of the disk.
OWN_FIELDS: Final = frozenset(
    {"host", "port", "cluster_id", "session_id", "log_dir", "total_bytes", "usable_bytes"}
)
# The first tag of oncelog's own fields.
FIRST_OWN_TAG: Final = 10_000
# A clock, as in the message for a timestamp that is out of range.
_NOW: Final = re.compile(r"\d{13}")


class Side:
    """A connection to one broker. `prefix` begins all names of the test. `base_ms` is the timestamp
    of the oldest record."""

    def __init__(self, address: str, prefix: str, base_ms: int) -> None:
        self.wire = Wire(address)
        self.base_ms = base_ms
        self.log, self.compact, self.empty, self.wide, self.missing, self.group = (
            f"{prefix}-{name}" for name in ("log", "compact", "empty", "wide", "missing", "group")
        )
        self._prefix = prefix
        self._ids: dict[str, bytes] = {}

    @property
    def pattern(self) -> str:
        """Return a pattern of all names of the test."""
        return f"{self._prefix}.*"

    def id_of(self, topic: str) -> bytes:
        """Return the id of a topic. A topic that does not exist has an id that no topic has."""
        return self._ids.get(topic, uuid.uuid5(uuid.NAMESPACE_DNS, topic).bytes)

    def set_up(self) -> None:
        """Create the topics, write records, commit offsets."""
        topics = [
            CreatableTopic(self.log, 3, 1, configs=[CreatableTopicConfig("retention.ms", "-1")]),
            CreatableTopic(self.compact, 1, 1, configs=[_COMPACT]),
            CreatableTopic(self.empty, 1, 1),
            CreatableTopic(self.wide, 12, 1),
        ]
        made = self.wire.call(CreateTopicsRequest(topics, TIMEOUT_MS), 7).topics
        assert [topic.error_code for topic in made] == [0] * len(topics)
        wait_until(lambda: all(self._is_led(topic.name) for topic in topics), "topics with leaders")
        for stamps in ((10, 50, 30), (20, 40), (60, 5), (70,)):
            self._write(self.log, *stamps)
        for stamp in range(3):
            self._write(self.compact, stamp)
        for kind in (0, 1):
            find_coordinator(self.wire, self.group, kind)
        wait_until(self._commits, "a coordinator that has loaded the group")

    def _is_led(self, topic: str) -> bool:
        found = {row.name: row for row in self.wire.call(MetadataRequest(None, False), 12).topics}
        if topic not in found or any(part.error_code for part in found[topic].partitions):
            return False
        self._ids[topic] = found[topic].topic_id
        return len(found[topic].partitions) > 0

    def _write(self, topic: str, *stamps: int) -> None:
        records = [NewRecord(self.base_ms + stamp, b"k", b"v") for stamp in stamps]
        wait_until(
            lambda: produce(self.wire, topic, build_batch(records)).error_code == 0,
            f"a batch in {topic}",
        )

    def _commits(self) -> bool:
        partitions = [
            OffsetCommitRequestPartition(0, 5, 0, "m"),
            OffsetCommitRequestPartition(1, 0, -1, ""),
        ]
        topics = [OffsetCommitRequestTopic(self.log, partitions=partitions)]
        request = OffsetCommitRequest(self.group, -1, "", topics=topics)
        rows = self.wire.call(request, 9).topics[0].partitions
        return all(row.error_code == ErrorCode.NONE for row in rows)

    def plain(self, value: Any, version: int) -> Any:
        """Return a message as dicts and lists, without the fields that every broker has of its own.
        Lists are sorted, because Kafka keeps many of them in hash maps."""
        if "__schema__" in type(value).__dict__:
            return {
                field.name: self._field(field.name, getattr(value, field.name), version)
                for field in schema_of(type(value)).fields
                if field.present(version)
                and field.name not in OWN_FIELDS
                and (field.tag is None or field.tag < FIRST_OWN_TAG)
            }
        if isinstance(value, list):
            return sorted(_merged([self.plain(element, version) for element in value]), key=repr)
        if isinstance(value, bytes | bytearray | memoryview):
            data = bytes(value)
            return next((name for name, id_ in self._ids.items() if id_ == data), data)
        return _NOW.sub("NOW", value) if isinstance(value, str) else value

    def _field(self, name: str, value: Any, version: int) -> Any:
        return ErrorCode(value).name if name == "error_code" else self.plain(value, version)


def _merged(rows: list[Any]) -> list[Any]:
    """Return the rows of topics with one row for each topic. In a response of Fetch, Kafka has
    several rows for a topic if some of its partitions have errors."""
    if not all(isinstance(row, dict) and row.keys() - {"partitions"} <= _OF_TOPIC for row in rows):
        return rows
    partitions: dict[str, list[Any]] = {}
    for row in rows:
        name = repr([row.get(field) for field in ("topic", "topic_id", "name")])
        partitions.setdefault(name, []).extend(row.get("partitions", []))
    return [
        {"topic": name, "partitions": sorted(parts, key=repr)} for name, parts in partitions.items()
    ]


_OF_TOPIC: Final = frozenset({"topic", "topic_id", "name"})
_COMPACT: Final = CreatableTopicConfig("cleanup.policy", "compact")
NO_ID: Final = ZERO_UUID


def now_ms() -> int:
    return time.time_ns() // 1_000_000
