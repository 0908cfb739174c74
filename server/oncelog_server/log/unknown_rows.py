"""Computes the txnindex rows of all segments without an entry in `txn-index-checkpoint`, for
example of a log that was copied from Kafka. Each segment is read at most once. This may take a
minute for a large log, so it is done in steps, and the log may change between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from oncelog_server.log.log import PartitionLog
from oncelog_server.log.producers import Producers
from oncelog_server.log.replay import load_newest, replaying
from oncelog_server.log.segment import Segment
from oncelog_server.log.txn_index import AbortedTransaction
from oncelog_server.slices import ColdSteps
from oncelog_server.storage.files import StorageError


def has_unknown_rows(log: PartitionLog, offset: int) -> bool:
    """Return True if the rows of the segment with `offset`, or of a later segment, are unknown."""
    unknown = log.segments.aborted.unknown
    if not unknown:
        return False
    return max(unknown) >= log.segments.from_offset(offset)[0].base_offset


def compute_unknown_rows(log: PartitionLog) -> ColdSteps[None]:
    """Compute all unknown rows of the log, and write the checkpoint. Yield after each step, and
    yield bytes that are only on the disk. Raises StorageError and CorruptLog."""
    aborted = log.segments.aborted
    if not aborted.unknown:
        return
    ordered, producers = list(log.segments), Producers()
    # `producers` has the state at the start of this segment.
    reached = -1
    for slot, segment in enumerate(ordered):
        base_offset = segment.base_offset
        if base_offset not in aborted.unknown:
            continue
        if reached != slot:
            yield from _advance(producers, log, ordered, reached, slot)
        rows: list[AbortedTransaction] = []
        yield from replaying(producers, segment, base_offset, 0, rows=rows)
        reached = slot + 1
        if log.segments.from_offset(base_offset)[0] is segment:
            aborted.computed(base_offset, rows)
        yield None
    with suppress(StorageError):  # the next roll writes the checkpoint
        log.segments.checkpoint(active=log.segments.active.size)


def _advance(
    producers: Producers, log: PartitionLog, ordered: Sequence[Segment], reached: int, slot: int
) -> ColdSteps[None]:
    """Bring `producers` from the start of the segment `reached` (-1: from no state) to the start of
    the segment `slot`."""
    offset = ordered[slot].base_offset
    replay_from = ordered[reached].base_offset
    if reached < 0 or log.snapshots.newest_offset(offset) > replay_from:
        producers.clear()
        replay_from = load_newest(producers, log.segments, log.snapshots, offset, 0) or 0
    for segment in ordered[:slot]:
        if segment.end_offset > replay_from:
            yield from replaying(producers, segment, replay_from, 0)
            yield None
