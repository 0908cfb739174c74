"""Counts the records that a read_uncommitted consumer returns although they are not committed
(KIP-98)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import attrgetter

from oncelog_client.values import TopicPartition
from oncelog_protocol.records.record import Record

_offset = attrgetter("offset")


class UncommittedRecords:
    """Counts the records of open and aborted transactions that the consumer has returned so far.

    `ends`: for some partitions, an end offset. Records at or above this offset do not count.
    """

    def __init__(self) -> None:
        self.ends: Mapping[TopicPartition, int] = {}
        # Number of returned records by partition and producer id, until the marker is read.
        self._open: dict[tuple[TopicPartition, int], int] = {}
        self._aborted = 0

    @property
    def count(self) -> int:
        return self._aborted + sum(self._open.values())

    def give(self, partition: TopicPartition, producer_id: int, records: Sequence[Record]) -> None:
        """Count transactional records that the consumer returns, in the order of their offsets."""
        end = self.ends.get(partition)
        number = len(records) if end is None else bisect_left(records, end, key=_offset)
        if number:
            key = partition, producer_id
            self._open[key] = self._open.get(key, 0) + number

    def end(self, partition: TopicPartition, producer_id: int, *, committed: bool) -> None:
        """Handle a marker. The marker ends the producer's open transaction in this partition."""
        number = self._open.pop((partition, producer_id), 0)
        if not committed:
            self._aborted += number
