"""Rebuilds the state of producers from a snapshot and the batches after the snapshot (Kafka's
rebuildProducerState). A replay on the event loop is done in steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from oncelog_protocol.records.batch import HEADER_SIZE, BatchHeader, read_records
from oncelog_protocol.records.control import read_marker
from oncelog_protocol.records.record import Bytes
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.look_ahead import LookAhead
from oncelog_server.log.producer_snapshot import Snapshots
from oncelog_server.log.producers import Producers
from oncelog_server.log.scan import SCAN_CHUNK
from oncelog_server.log.segment import Segment
from oncelog_server.log.txn_index import AbortedTransaction
from oncelog_server.slices import ColdSteps, at_its_end

_MARKER_BYTES: Final = 1 << 16
# Number of batches, and of bytes of the log, in one step of a replay. A step takes about 1 ms.
STEP_BATCHES: Final = 256
STEP_BYTES: Final = 4 << 20


def replay(
    producers: Producers,
    segment: Segment,
    from_offset: int,
    now_ms: int,
    rows: list[AbortedTransaction] | None = None,
) -> int:
    """Make the replay of `replaying` at once."""
    return at_its_end(replaying(producers, segment, from_offset, now_ms, rows=rows))


def replaying(
    producers: Producers,
    segment: Segment,
    from_offset: int,
    now_ms: int,
    *,
    end_offset: int | None = None,
    rows: list[AbortedTransaction] | None = None,
) -> ColdSteps[int]:
    """Update `producers` with the batches from `from_offset` to `end_offset`, or to the end of the
    segment. Only headers and markers are read. Yield after each step, and yield bytes that are only
    on the disk. Return the number of batches.
    `rows` gets the transactions that were aborted in this range. Raises CorruptLog."""
    with segment.borrowed_indexes():
        scan = segment.walk_from(max(from_offset, segment.base_offset), SCAN_CHUNK)
    batches, step_end = 0, scan.position + STEP_BYTES
    ahead = LookAhead(segment.log)
    if cold := ahead.cold(scan.position, SCAN_CHUNK):
        yield cold
    for position, header in scan:
        if end_offset is not None and header.base_offset >= end_offset:
            return batches
        if header.base_offset >= from_offset:
            batches += 1
            row = apply_batch(producers, segment.base_offset, position, header, scan.batch, now_ms)
            if row is not None and rows is not None:
                rows.append(row)
            if not batches % STEP_BATCHES or position >= step_end:
                step_end = position + STEP_BYTES
                yield None
        if cold := ahead.cold(position + header.size, HEADER_SIZE):
            yield cold
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
    snapshot_offset = load_newest(producers, segments, snapshots, end, now_ms)
    replay_from = first if snapshot_offset is None else snapshot_offset
    batches = sum(
        replay(producers, segment, replay_from, now_ms)
        for segment in segments
        if segment.end_offset > replay_from
    )
    producers.decided.update(decided)
    return Rebuilt(snapshot_offset, batches)


def load_newest(
    producers: Producers, segments: Sequence[Segment], snapshots: Snapshots, last: int, now_ms: int
) -> int | None:
    """Load the newest snapshot of the log at or below the offset `last`. Return its offset, None
    without a snapshot."""
    found = snapshots.newest(segments[0].base_offset, last, now_ms)
    if found is None:
        return None
    producers.load(found[1])
    return found[0]


class ProducersAt(NamedTuple):
    """The state of the producers at `end_offset`. `producers` is None if the current state is also
    the state at `end_offset`."""

    end_offset: int
    producers: Producers | None


def producers_at(
    producers: Producers,
    segments: Sequence[Segment],
    snapshots: Snapshots,
    end_offset: int,
    now_ms: int,
) -> ColdSteps[ProducersAt]:
    """Return the state that `producers` had at `end_offset`, where the log will be cut. Yield after
    each step. The batches below `end_offset` may not change meanwhile. Nothing is read if no
    producer has a batch or a marker after `end_offset`. Raises StorageError and CorruptLog."""
    if not producers.may_change_from(end_offset):
        return ProducersAt(end_offset, None)
    earlier = Producers()
    replay_from = load_newest(earlier, segments, snapshots, end_offset, now_ms) or 0
    for segment in list(segments):
        if segment.base_offset < end_offset and segment.end_offset > replay_from:
            yield from replaying(earlier, segment, replay_from, now_ms, end_offset=end_offset)
    return ProducersAt(end_offset, earlier)


def decided_from(
    segments: Sequence[Segment], snapshots: Snapshots, offset: int, now_ms: int
) -> dict[int, int]:
    """Return the transactions with a marker at `offset` or above: first offset of the transaction
    -> offset of the marker. After a start, `Producers.decided` lacks the transactions with a marker
    before the loaded snapshot. Raises StorageError and CorruptLog."""
    if not any(_has_marker(segment, offset) for segment in segments):
        return {}
    producers = Producers()
    replay_from = load_newest(producers, segments, snapshots, offset, now_ms) or 0
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
    replay_from = load_newest(producers, segments, snapshots, base_offset, 0) or 0
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
