"""Finds the outcome of each batch of a partition (committed, aborted or open) from the markers
after the batch."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from oncelog_protocol.records.batch import BatchHeader, read_records
from oncelog_protocol.records.control import EndTransactionMarker, read_marker
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_server.inspection.batches import RawBatch

_MARKER_BYTES: Final = 1 << 16


class Outcome(StrEnum):
    """The outcome of a batch's transaction."""

    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"
    OPEN = "OPEN"


class Outcomes:
    """The markers of a partition, by producer id and offset. A marker takes nine bytes of
    memory."""

    def __init__(self) -> None:
        self._offsets: dict[int, array[int]] = {}
        self._committed: dict[int, bytearray] = {}

    @classmethod
    def of(cls, batches: Iterable[RawBatch]) -> Outcomes:
        """Return the outcomes that the markers in `batches` decide. `batches` are in the order of
        offsets."""
        outcomes = cls()
        for batch in batches:
            marker = marker_of(batch)
            if marker is not None:
                outcomes.note(batch.header, marker)
        return outcomes

    def note(self, header: BatchHeader, marker: EndTransactionMarker) -> None:
        """Add the marker of the batch with this header. A marker with a lower offset than the
        previous marker of the producer is ignored."""
        offsets = self._offsets.setdefault(header.producer_id, array("q"))
        if offsets and header.base_offset < offsets[-1]:
            return  # the log is damaged there, so the marker with the higher offset counts
        offsets.append(header.base_offset)
        self._committed.setdefault(header.producer_id, bytearray()).append(marker.committed)

    def outcome(self, header: BatchHeader) -> Outcome | None:
        """Return the outcome of a batch, None for markers and batches without a transaction."""
        if not header.is_transactional or header.is_control:
            return None
        offsets = self._offsets.get(header.producer_id)
        slot = bisect_right(offsets, header.last_offset) if offsets else 0
        if offsets is None or slot == len(offsets):
            return Outcome.OPEN
        committed = self._committed[header.producer_id][slot]
        return Outcome.COMMITTED if committed else Outcome.ABORTED


def marker_of(batch: RawBatch) -> EndTransactionMarker | None:
    """Return the marker in a batch, None if the batch has no marker or cannot be read."""
    if not batch.header.is_control:
        return None
    try:
        records = read_records(batch.data, max_bytes=_MARKER_BYTES, check_crc=False)
        return read_marker(records[0]) if records else None
    except CorruptRecords:
        return None
