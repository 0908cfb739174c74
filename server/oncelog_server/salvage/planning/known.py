"""The remaining metadata of a data directory, and its records by kind."""

from __future__ import annotations

import msgspec

from oncelog_protocol.types import uuid_from_string
from oncelog_server.cluster import records
from oncelog_server.cluster.records import (
    ClusterRecord,
    DeletionRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from oncelog_server.cluster.store import Entry, Snapshot


class Uncertain(ValueError):
    """The sources do not say what is right. The message says what the operator can do."""


class Known(msgspec.Struct, frozen=True):
    """The newest metadata that is left.

    `is_last` is True if `snapshot` includes the last change, as far as its source shows.
    """

    snapshot: Snapshot
    is_last: bool
    source: str


class KnownRecords:
    """The records of a source by kind. `unreadable` are the keys of records that cannot be read."""

    def __init__(self, known: Known | None) -> None:
        self.others: dict[str, Entry] = {}
        self.topics: dict[str, TopicRecord] = {}
        self.partitions: dict[tuple[str, int], PartitionRecord] = {}
        self.deletions: dict[bytes, DeletionRecord] = {}
        self.next_producer_id = 0
        self.cluster: ClusterRecord | None = None
        self.unreadable: list[str] = []
        for entry in () if known is None else known.snapshot.entries:
            try:
                self._add(entry)
            except ValueError:
                self.unreadable.append(entry.key)

    @classmethod
    def whole(cls, known: Known) -> KnownRecords:
        """Return the records. Raises Uncertain if a record is damaged, or if the record of the
        cluster is missing."""
        old = cls(known)
        if old.unreadable:
            raise Uncertain(f"{known.source} is damaged: record {old.unreadable[0]} cannot be read")
        if old.cluster is None:
            raise Uncertain(f"{known.source} has no record of a cluster")
        return old

    def _add(self, entry: Entry) -> None:
        key, value = entry.key, entry.value
        if key.startswith(records.TOPICS):
            self.topics[key.removeprefix(records.TOPICS)] = records.decode(TopicRecord, value)
        elif key.startswith(records.PARTITIONS):
            id_text, _, number = key.removeprefix(records.PARTITIONS).rpartition("/")
            self.partitions[id_text, int(number)] = records.decode(PartitionRecord, value)
        elif key.startswith(records.DELETIONS):
            topic_id = uuid_from_string(key.removeprefix(records.DELETIONS))
            self.deletions[topic_id] = records.decode(DeletionRecord, value)
            self.others[key] = entry
        elif key == records.PRODUCER_IDS:
            self.next_producer_id = records.decode(ProducerIdsRecord, value).next_producer_id
        elif key == records.CLUSTER:
            self.cluster = records.decode(ClusterRecord, value)
        elif not key.startswith(records.LEASED):
            self.others[key] = entry
