"""Committed offsets, and offsets that are pending in a transaction. Only the replay of records and
markers changes the offsets.

Source: Kafka's OffsetMetadataManager. A partition may have an offset from a plain commit (outside a
transaction) and an offset from a transaction. The offset with the later record then counts, even if
the marker of the transaction follows the plain commit (KAFKA-5247).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from oncelog_server.slices import Steps, portions


class CommittedOffset(msgspec.Struct, frozen=True):
    """A committed offset. `record_offset` is the offset of its record in __consumer_offsets.
    Timestamps are wall-clock ms."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None
    record_offset: int


# The key of an offset within its group: (topic, partition). The key is a plain tuple to save
# memory, because there are very many keys.
Place = tuple[str, int]
_Pending = dict[str, dict[Place, CommittedOffset]]


class Offsets:
    """The offsets of all groups of a shard."""

    __slots__ = ("_committed", "_pending", "_pending_producers")

    def __init__(self) -> None:
        # group_id -> topic -> partition -> offset
        self._committed: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        # producer_id -> group_id -> partition -> offset
        self._pending: dict[int, _Pending] = {}
        # group_id -> partition -> the producers with a pending offset for it
        self._pending_producers: dict[str, dict[Place, set[int]]] = {}

    # --- replay

    def commit(self, group_id: str, topic: str, partition: int, value: CommittedOffset) -> None:
        """Apply the record of a plain commit."""
        self._committed.setdefault(group_id, {}).setdefault(topic, {})[partition] = value

    def stage(
        self, producer_id: int, group_id: str, topic: str, partition: int, value: CommittedOffset
    ) -> None:
        """Apply the record of a transactional commit. The offset is invisible until the
        transaction's marker."""
        key = (topic, partition)
        self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[key] = value
        producers = self._pending_producers.setdefault(group_id, {}).setdefault(key, set())
        producers.add(producer_id)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Apply a tombstone, which deletes the committed and the pending offsets of the
        partition."""
        topics = self._committed.get(group_id, {})
        partitions = topics.get(topic, {})
        if partitions.pop(partition, None) is not None and not partitions:
            del topics[topic]
            if not topics:
                del self._committed[group_id]
        key = (topic, partition)
        for producer_id in sorted(self._pending_producers.get(group_id, {}).get(key, ())):
            groups = self._pending[producer_id]
            del groups[group_id][key]
            if not groups[group_id]:
                del groups[group_id]
                if not groups:
                    del self._pending[producer_id]
            self._forget_producer(group_id, key, producer_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a marker: commit or drop the producer's pending offsets."""
        for group_id, partitions in self._pending.pop(producer_id, {}).items():
            for key, value in partitions.items():
                self._forget_producer(group_id, key, producer_id)
                if not committed:
                    continue
                existing = self.committed(group_id, *key)
                if existing is None or existing.record_offset < value.record_offset:
                    self.commit(group_id, *key, value)

    def _forget_producer(self, group_id: str, key: Place, producer_id: int) -> None:
        partitions = self._pending_producers[group_id]
        partitions[key].discard(producer_id)
        if not partitions[key]:
            del partitions[key]
            if not partitions:
                del self._pending_producers[group_id]

    # --- reading

    def committed(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return the committed offset of one partition, None if there is none."""
        return self._committed.get(group_id, {}).get(topic, {}).get(partition)

    def of_group(self, group_id: str) -> dict[str, dict[int, CommittedOffset]]:
        """Return all committed offsets of a group, by topic and partition. The caller must not
        change the result."""
        return self._committed.get(group_id, {})

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return True if an undecided transaction has an offset for the partition."""
        return (topic, partition) in self._pending_producers.get(group_id, {})

    def is_group_in_transaction(self, group_id: str) -> bool:
        """Return True if an undecided transaction has any offset of the group."""
        return group_id in self._pending_producers

    def pending_of_group(self, group_id: str) -> Iterator[Place]:
        """Return the partitions with a pending offset."""
        return iter(self._pending_producers.get(group_id, {}))

    def pending_producers(self, group_id: str, topic: str, partition: int) -> frozenset[int]:
        """Return the producers that have an offset for the partition in an open transaction."""
        return frozenset(self._pending_producers.get(group_id, {}).get((topic, partition), ()))

    def groups(self) -> list[str]:
        """Return the groups with an offset, committed or pending."""
        return list({**self._committed, **self._pending_producers})

    def committed_count(self) -> Steps[int]:
        """Count the committed offsets. A step handles a portion of the topics of a group."""
        count = 0
        for topics in list(self._committed.values()):
            for partitions in portions(topics.values()):
                count += sum(map(len, partitions))
                yield
        return count

    def snapshot(
        self,
    ) -> tuple[
        dict[tuple[str, str, int], CommittedOffset],
        dict[tuple[int, str, str, int], CommittedOffset],
    ]:
        """Return the committed offsets by (group, topic, partition), and the pending offsets by
        producer id and the same key."""
        committed = {
            (group_id, topic, partition): value
            for group_id, topics in self._committed.items()
            for topic, partitions in topics.items()
            for partition, value in partitions.items()
        }
        pending = {
            (producer_id, group_id, *key): value
            for producer_id, groups in self._pending.items()
            for group_id, partitions in groups.items()
            for key, value in partitions.items()
        }
        return committed, pending
