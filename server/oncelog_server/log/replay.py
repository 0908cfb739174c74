"""Rebuilds the state of producers from a snapshot and the batches after the snapshot (Kafka's
rebuildProducerState)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from oncelog_protocol.records.batch import BatchHeader, read_records
from oncelog_protocol.records.control import read_marker
from oncelog_protocol.records.record import Bytes
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.producer_snapshot import Snapshots
from oncelog_server.log.producers import Producers
from oncelog_server.log.scan import SCAN_CHUNK
from oncelog_server.log.segment import Segment
from oncelog_server.log.txn_index import AbortedTransaction

_MARKER_BYTES: Final = 1 << 16


def replay(
    producers: Producers,
    segment: Segment,
    from_offset: int,
    now_ms: int,
    rows: list[AbortedTransaction] | None = None,
) -> int:
    """Update `producers` with the batches from `from_offset` to the end of the segment. Only
    headers and markers are read. Return the number of batches. `rows` gets the transactions that
    were aborted in this range. Raises CorruptLog."""
    with segment.borrowed_indexes():
        scan = segment.walk_from(max(from_offset, segment.base_offset), SCAN_CHUNK)
    batches = 0
    for position, header in scan:
        if header.base_offset >= from_offset:
            batches += 1
            row = apply_batch(producers, segment.base_offset, position, header, scan.batch, now_ms)
            if row is not None and rows is not None:
                rows.append(row)
    if scan.problem is not None:
        raise CorruptLog(segment.log.path, scan.position, scan.problem)
    return batches


class Rebuilt(NamedTuple):
    """The result of `rebuild`: the offset of the loaded snapshot (None without a snapshot), and the
    number of batches that were replayed."""

    snapshot_offset: int | None
    batches: int


def rebuild(
    producers: Producers, segments: Sequence[Segment], snapshots: Snapshots, now_ms: int
) -> Rebuilt:
    """Bring `producers` to the end of the log. The newest snapshot is loaded, and the batches after
    the snapshot are replayed. Raises StorageError and CorruptLog."""
    first, end = segments[0].base_offset, segments[-1].end_offset
    # A snapshot does not have the transactions with markers before the snapshot. These markers may
    # still be at or above the high watermark, so the entries of `producers.decided` are kept.
    decided = {begin: last for begin, last in producers.decided.items() if last < end}
    producers.clear()
    found = snapshots.newest(first, end, now_ms)
    replay_from = first
    if found is not None:
        replay_from, entries = found
        producers.load(entries)
    batches = sum(
        replay(producers, segment, replay_from, now_ms)
        for segment in segments
        if segment.end_offset > replay_from
    )
    producers.decided.update(decided)
    return Rebuilt(None if found is None else replay_from, batches)


def decided_from(
    segments: Sequence[Segment], snapshots: Snapshots, offset: int, now_ms: int
) -> dict[int, int]:
    """Return the transactions with a marker at `offset` or above: first offset of the transaction
    -> offset of the marker. After a start, `Producers.decided` lacks the transactions with a marker
    before the loaded snapshot. Raises StorageError and CorruptLog."""
    if not any(_has_marker(segment, offset) for segment in segments):
        return {}
    producers = Producers()
    replay_from = segments[0].base_offset
    found = snapshots.newest(replay_from, offset, now_ms)
    if found is not None:
        replay_from, entries = found
        producers.load(entries)
    for segment in segments:
        if segment.end_offset > replay_from:
            replay(producers, segment, replay_from, now_ms)
    return {first: last for first, last in producers.decided.items() if last >= offset}


def _has_marker(segment: Segment, offset: int) -> bool:
    """Return True if the segment has a marker at `offset` or above."""
    if segment.end_offset <= offset:
        return False
    with segment.borrowed_indexes():
        scan = segment.walk_from(max(offset, segment.base_offset), SCAN_CHUNK)
    return any(header.is_control and header.base_offset >= offset for _, header in scan)


def aborted_rows(
    segments: Sequence[Segment], snapshots: Snapshots, base_offset: int
) -> list[AbortedTransaction]:
    """Return the txnindex rows of the segment at `base_offset`. The rows come from the newest
    snapshot at or below this offset, and from the log after that snapshot. Raises CorruptLog."""
    producers = Producers()
    replay_from = segments[0].base_offset
    found = snapshots.newest(replay_from, base_offset, 0)
    if found is not None:
        replay_from, entries = found
        producers.load(entries)
    rows: list[AbortedTransaction] = []
    for segment in segments:
        if segment.base_offset > base_offset:
            break
        if segment.end_offset > replay_from:
            rows.clear()
            replay(producers, segment, replay_from, 0, rows)
    return rows


def apply_batch(
    producers: Producers,
    segment_base_offset: int,
    position: int,
    header: BatchHeader,
    read_batch: Callable[[], Bytes],
    now_ms: int,
) -> AbortedTransaction | None:
    """Apply a batch to the state of its producer. Check nothing, because the append has checked the
    batch. `position` is the place of the batch in the segment's file. Return the txnindex row if
    the batch aborted a transaction."""
    if header.producer_id < 0:
        return None
    if not header.is_control:
        base_offset = header.base_offset
        producers.data_appended(header, base_offset, segment_base_offset, position, now_ms)
        return None
    records = read_records(read_batch(), max_bytes=_MARKER_BYTES, check_crc=False)
    marker = read_marker(records[0]) if records else None
    if marker is None:
        return None  # compaction has emptied the batch, or the kind of control record is unknown
    completed = producers.completed_by(
        header.producer_id, offset=header.base_offset, committed=marker.committed
    )
    row = None
    if completed is not None and not marker.committed:
        stable = producers.last_stable_offset_after(completed)
        row = AbortedTransaction(
            header.producer_id, completed.first_offset, header.base_offset, stable
        )
    producers.marker_appended(
        header.producer_id,
        header.producer_epoch,
        marker.coordinator_epoch,
        completed,
        timestamp=header.max_timestamp,
        now_ms=now_ms,
    )
    return row
