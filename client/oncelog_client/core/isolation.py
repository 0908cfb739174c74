"""The records of a fetch response that a reader may see: without control batches and, under
read_committed, without aborted batches.

Source: KIP-98 ("Consumer") and the Java client's CompletedFetch. Nothing needs to be buffered: the
broker ends a read_committed response at the last stable offset, and lists the aborted transactions
of the response.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from heapq import heapify, heappop
from typing import NamedTuple

from oncelog_protocol.records.batch import BatchHeader, compute_crc, read_records, split_batches
from oncelog_protocol.records.control import read_marker
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import Bytes, Record


class AbortedRange(NamedTuple):
    """An aborted transaction that overlaps the response: its producer and first offset."""

    first_offset: int
    producer_id: int


class VisibleBatch(NamedTuple):
    """One batch after filtering. `records` may be empty. The position moves to `next_offset`.

    `producer_id` is -1 unless the batch belongs to a transaction. `committed` is the decision of a
    commit or abort marker. It is None for other batches, and if markers are not read.
    """

    records: list[Record]
    next_offset: int
    leader_epoch: int
    timestamp_type: int
    producer_id: int = -1
    committed: bool | None = None


def visible_batches(
    buffer: Bytes,
    fetch_offset: int,
    *,
    read_committed: bool,
    aborted: Iterable[AbortedRange] = (),
    max_batch_bytes: int,
    check_crcs: bool = True,
    read_markers: bool = False,
) -> Iterator[VisibleBatch]:
    """Yield each batch of a fetch response, with its records from `fetch_offset` on. A batch that
    the application may not see has no records.

    `max_batch_bytes` limits the size of a decompressed batch. Raises CorruptRecords or
    UnsupportedMagic when the iterator reaches a corrupt batch. The batches before it are valid.
    """
    for position, header, visible in marked_batches(
        buffer,
        fetch_offset,
        read_committed=read_committed,
        aborted=aborted,
        check_crcs=check_crcs,
    ):
        records: list[Record] = []
        if visible:
            records = read_records(
                buffer, position, max_bytes=max_batch_bytes, check_crc=check_crcs
            )
            if header.base_offset < fetch_offset:
                records = [record for record in records if record.offset >= fetch_offset]
        yield VisibleBatch(
            records,
            header.next_offset,
            header.partition_leader_epoch,
            header.timestamp_type,
            header.producer_id if header.is_transactional else -1,
            not _is_abort(buffer, position) if read_markers and header.is_control else None,
        )


def marked_batches(
    buffer: Bytes,
    fetch_offset: int,
    *,
    read_committed: bool,
    aborted: Iterable[AbortedRange] = (),
    check_crcs: bool = True,
) -> Iterator[tuple[int, BatchHeader, bool]]:
    """Yield the position and header of each whole batch that reaches `fetch_offset`, and a flag:
    True if the application may see the records of the batch. The records are not decoded.
    `check_crcs`: check the CRC of each batch that the application may not see. The caller checks
    the other batches. Raises the errors of `visible_batches`."""
    aborted_transactions = _Aborted(aborted)
    for position, header in split_batches(buffer, allow_partial=True):
        hidden = (
            read_committed
            and header.has_producer_id
            and aborted_transactions.hides(buffer, position, header)
        )
        is_visible = not (hidden or header.is_control)
        # Brokers return whole batches. Records before `fetch_offset` are left out, but markers
        # before it count.
        is_reached = header.next_offset > fetch_offset
        # A damaged header may turn records into a marker, move them before `fetch_offset`, or let a
        # marker hide later records. So no batch is left out before its check.
        if (
            check_crcs
            and not (is_visible and is_reached)
            and compute_crc(buffer, position, header.size) != header.crc
        ):
            raise CorruptRecords(f"the CRC of the batch at offset {header.base_offset} is wrong")
        if is_reached:
            yield position, header, is_visible


def markers(buffer: Bytes, offset: int) -> Iterator[tuple[int, bool]]:
    """Yield the producer id of each commit or abort marker from `offset` on, and True for a commit.
    End at a corrupt batch."""
    with suppress(CorruptRecords):
        for position, header in split_batches(buffer, allow_partial=True):
            if header.is_control and header.base_offset >= offset:
                yield header.producer_id, not _is_abort(buffer, position)


class _Aborted:
    """Tracks the producers that are in an aborted transaction at the current batch."""

    def __init__(self, ranges: Iterable[AbortedRange]) -> None:
        self._ahead = list(ranges)
        heapify(self._ahead)
        self._open: set[int] = set()

    def hides(self, buffer: Bytes, position: int, header: BatchHeader) -> bool:
        """Advance to this batch. Return True if it belongs to an aborted transaction."""
        while self._ahead and self._ahead[0].first_offset <= header.last_offset:
            self._open.add(heappop(self._ahead).producer_id)
        if header.producer_id not in self._open:
            return False
        if header.is_control:
            if _is_abort(buffer, position):
                self._open.discard(header.producer_id)
            return False
        return header.is_transactional


def _is_abort(buffer: Bytes, position: int) -> bool:
    records = read_records(buffer, position, max_bytes=len(buffer), check_crc=False)
    marker = read_marker(records[0]) if records else None
    return marker is not None and not marker.committed
