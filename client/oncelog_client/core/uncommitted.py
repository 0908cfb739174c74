"""Counts the records that a read_uncommitted consumer returns although they are not committed
(KIP-98)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from oncelog_client.values import TopicPartition
from oncelog_protocol.records.record import Record

_offset = attrgetter("offset")


class Marker(NamedTuple):
    """The end of a producer's transaction in a partition."""

    partition: TopicPartition
    producer_id: int
    committed: bool


class _Returned(NamedTuple):
    """The returned records of a transaction: their number, and the offset of the last one."""

    number: int
    last_offset: int


class UncommittedRecords:
    """Counts the records of open and aborted transactions that the consumer has returned so far.

    `markers_ahead` returns the markers that were fetched and not returned yet, in the order of
    their offsets. `stable_offset` returns the last stable offset of a partition, None if it is
    unknown. `ends`: for some partitions, an end offset. Records at or above this offset do not
    count.
    """

    def __init__(
        self,
        markers_ahead: Callable[[], Iterable[Marker]] = lambda: (),
        stable_offset: Callable[[TopicPartition], int | None] = lambda partition: None,
    ) -> None:
        self.ends: Mapping[TopicPartition, int] = {}
        self._markers_ahead = markers_ahead
        self._stable_offset = stable_offset
        # By partition and producer id, until the marker is read.
        self._open: dict[tuple[TopicPartition, int], _Returned] = {}
        self._aborted = 0

    def count(self) -> tuple[int, int]:
        """Return the number of returned records of aborted transactions, and of transactions that
        are still open. Neither has the records of a transaction that has ended, if its marker was
        not fetched: they may be committed."""
        ended: dict[tuple[TopicPartition, int], bool] = {}
        for marker in self._markers_ahead():
            ended.setdefault((marker.partition, marker.producer_id), marker.committed)
        aborted, still_open = self._aborted, 0
        for key, returned in self._open.items():
            if key in ended:
                aborted += 0 if ended[key] else returned.number
            elif self._is_open(key[0], returned.last_offset):
                still_open += returned.number
        return aborted, still_open

    def _is_open(self, partition: TopicPartition, offset: int) -> bool:
        stable = self._stable_offset(partition)
        return stable is not None and offset >= stable

    def give(self, partition: TopicPartition, producer_id: int, records: Sequence[Record]) -> None:
        """Count transactional records that the consumer returns, in the order of their offsets."""
        end = self.ends.get(partition)
        number = len(records) if end is None else bisect_left(records, end, key=_offset)
        if number:
            key = partition, producer_id
            before = self._open[key].number if key in self._open else 0
            self._open[key] = _Returned(before + number, records[number - 1].offset)

    def end(self, partition: TopicPartition, producer_id: int, *, committed: bool) -> None:
        """Handle a marker. The marker ends the producer's open transaction in this partition."""
        returned = self._open.pop((partition, producer_id), None)
        if returned is not None and not committed:
            self._aborted += returned.number
