"""The metadata of a simulated cluster, as its etcd has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from oncelog_server.cluster.records import PartitionRecord, TopicRecord
from tests.simulation.etcd.kv import KeyRange, KeyValue, Kv

PREFIX: Final = b"/oncelog/"
_TOPICS: Final = PREFIX + b"topics/"
_PARTITIONS: Final = PREFIX + b"partitions/"
_BROKERS: Final = PREFIX + b"brokers/"
_ALL: Final = KeyRange(PREFIX, PREFIX[:-1] + b"0")

# Gets the name of a partition, its record before the change (None if it is new), and its record.
Changed = Callable[[str, PartitionRecord | None, PartitionRecord], None]


class Metadata:
    """The present records. `changed` is called at each change of a partition, in the turn of the
    loop in which etcd makes the change."""

    def __init__(self, kv: Kv, changed: Changed) -> None:
        self.partitions: dict[str, PartitionRecord] = {}
        self.broker_epochs: dict[int, int] = {}
        self._kv = kv
        self._changed = changed
        self._seen = kv.revision
        self._topics: dict[str, str] = {}
        # By the name of the partition.
        self._topic_ids: dict[str, str] = {}
        # Partitions of a topic without a record yet.
        self._early: dict[str, list[KeyValue]] = {}
        kv.on_commit.append(self._committed)

    @property
    def revision(self) -> int:
        return self._kv.revision

    def _committed(self) -> None:
        commits = list(self._kv.commits(_ALL, self._seen + 1))
        self._seen = self._kv.revision
        for commit in commits:
            for key, present in commit.events:
                self._take(key, present)

    def _take(self, key: bytes, present: KeyValue | None) -> None:
        if key.startswith(_BROKERS):
            broker_id = int(key.removeprefix(_BROKERS))
            self.broker_epochs.pop(broker_id, None)
            if present is not None:
                self.broker_epochs[broker_id] = present.create_revision
        elif present is None:
            return
        elif key.startswith(_TOPICS):
            topic_record = msgspec.json.decode(present.value, type=TopicRecord)
            self._topics[topic_record.id] = key.removeprefix(_TOPICS).decode()
            for early in self._early.pop(topic_record.id, []):
                self._take(early.key, early)
        elif key.startswith(_PARTITIONS):
            topic_id, _, index = key.removeprefix(_PARTITIONS).decode().partition("/")
            topic = self._topics.get(topic_id)
            if topic is None:
                self._early.setdefault(topic_id, []).append(present)
                return
            name = f"{topic}-{index}"
            # A topic that was created again begins anew.
            is_known = self._topic_ids.get(name) == topic_id
            before = self.partitions.get(name) if is_known else None
            self._topic_ids[name] = topic_id
            record = msgspec.json.decode(present.value, type=PartitionRecord)
            self.partitions[name] = record
            self._changed(name, before, record)
