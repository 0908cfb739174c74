"""Checks of one partition's files: the invariants I3, I4, I11, I14 to I16 of docs/testing.md."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.checking.batches import Batch, BrokenBatch
from tests.simulation.checking.logs import (
    AbortedRow,
    PartitionLog,
    Producer,
    read_rows,
    read_snapshot,
    scan,
)
from tests.simulation.checking.violations import Violation


def check_partition(
    log: PartitionLog, *, forgetful: bool = False, recreated: bool = False
) -> list[Violation]:
    """Check a partition. `forgetful`: producers may have expired, so sequence numbers may begin
    anywhere. `recreated`: a deleted topic had this name. A late Produce before v13 names the topic
    and not its id, so a producer's first batch here may have any sequence number, as in Kafka."""
    try:
        found = [*_order(log), *_epochs(log), *_transactions(log)]
        if not log.is_internal:
            found += _sequences(log, forgetful or is_partial(log), recreated)
        return [*found, *_rows(log), *_snapshots(log)]
    except BrokenBatch as broken:
        return [Violation("I16", log.name, f"not a batch: {broken}")]


def is_partial(log: PartitionLog) -> bool:
    """Return True if records are missing: at the start after retention, or in between after
    compaction."""
    return log.is_partial


def _order(log: PartitionLog) -> Iterator[Violation]:
    end = leader_epoch = -1
    for base, batches in log.segments.items():
        for batch in batches:
            if batch.base_offset < max(end, base):
                yield Violation("I16", log.name, f"{batch.base_offset} after {end}, in {base}")
            if batch.leader_epoch < leader_epoch:
                yield Violation(
                    "I11", log.name, f"leader epoch {batch.leader_epoch} at {batch.base_offset}"
                )
            end, leader_epoch = batch.last_offset + 1, batch.leader_epoch


def _sequences(log: PartitionLog, anywhere: bool, recreated: bool) -> Iterator[Violation]:
    """I3: each sequence number occurs once, without gaps, and begins at 0 in every epoch."""
    ended: dict[tuple[int, int], int] = {}
    taken: set[tuple[int, int, int]] = set()
    for batch in log.batches:
        if batch.producer_id < 0 or batch.is_control:
            continue
        producer = (batch.producer_id, batch.epoch)
        numbers = [(batch.base_sequence + n) % 2**31 for n in range(batch.delta + 1)]
        where = f"producer {producer} at offset {batch.base_offset}"
        expected = ended.get(producer, numbers[0] if recreated else 0)
        if any((*producer, number) in taken for number in numbers):
            yield Violation("I3", log.name, f"{where}: sequence {numbers[0]} for the second time")
        elif not anywhere and numbers[0] != expected:
            yield Violation("I3", log.name, f"{where}: sequence {numbers[0]}, not {expected}")
        taken |= {(*producer, number) for number in numbers}
        ended[producer] = (numbers[-1] + 1) % 2**31


def _epochs(log: PartitionLog) -> Iterator[Violation]:
    """I11: the epochs of a producer's batches never fall, and the coordinator epochs of its markers
    never fall either."""
    epochs: dict[int, int] = {}
    coordinators: dict[int, int] = {}
    for batch in log.batches:
        if batch.producer_id < 0:
            continue
        where = f"producer {batch.producer_id} at offset {batch.base_offset}"
        if batch.epoch < epochs.get(batch.producer_id, -1):
            yield Violation(
                "I11", log.name, f"{where}: epoch {batch.epoch} after {epochs[batch.producer_id]}"
            )
        epochs[batch.producer_id] = batch.epoch
        if batch.marker is not None:
            coordinator = batch.marker[1]
            if coordinator < coordinators.get(batch.producer_id, -1):
                yield Violation("I11", log.name, f"{where}: coordinator epoch {coordinator}")
            coordinators[batch.producer_id] = coordinator


def _transactions(log: PartitionLog) -> Iterator[Violation]:
    """I4: a producer has at most one open transaction, of one epoch, and writes only inside that
    transaction."""
    opened: dict[int, Batch] = {}
    for batch in log.batches:
        first = opened.get(batch.producer_id)
        where = f"producer {batch.producer_id} at offset {batch.base_offset}"
        if batch.is_control:
            opened.pop(batch.producer_id, None)
        elif first is not None and not batch.is_transactional:
            yield Violation("I4", log.name, f"{where}: outside of its open transaction")
        elif first is not None and batch.epoch != first.epoch:
            yield Violation("I4", log.name, f"{where}: opens a second transaction")
        elif batch.is_transactional and batch.producer_id >= 0:
            opened.setdefault(batch.producer_id, batch)


def _rows(log: PartitionLog) -> Iterator[Violation]:
    """I14: the `.txnindex` file of a segment has the transactions that a marker in that segment
    aborts."""
    bases = sorted(log.segments)
    for n, base in enumerate(bases):
        end = bases[n + 1] if n + 1 < len(bases) else log.end
        expected = [row for row in log.whole.rows if base <= row.last_offset < end]
        try:
            found = read_rows(log.txn_indexes.get(base, b""))
        except ValueError as error:
            yield Violation("I14", log.name, f"`.txnindex` of {base}: {error}")
            continue
        if not rows_agree(found, expected, partial=is_partial(log)):
            yield Violation(
                "I14", log.name, f"`.txnindex` of {base}: {found}, the log says {expected}"
            )


def rows_agree(found: list[AbortedRow], expected: list[AbortedRow], *, partial: bool) -> bool:
    """Return True if the rows of a `.txnindex` file are correct. If records are missing, a row may
    begin earlier, and a row of a transaction without records may remain. Readers see no difference
    in either case."""
    if not partial:
        return found == expected
    covering = {
        (row.producer_id, row.last_offset): (row.first_offset, row.last_stable_offset)
        for row in found
    }
    return all(
        (row.producer_id, row.last_offset) in covering
        and covering[row.producer_id, row.last_offset][0] <= row.first_offset
        and covering[row.producer_id, row.last_offset][1] <= row.last_stable_offset
        for row in expected
    )


def _snapshots(log: PartitionLog) -> Iterator[Violation]:
    for offset, data in sorted(log.snapshots.items()):
        if offset > log.end:
            continue  # a crash has truncated the log below this snapshot, so no start may use it
        try:
            found = read_snapshot(data)
        except ValueError as error:
            yield Violation("I15", log.name, f"snapshot {offset}: {error}")
            continue
        if is_partial(log):
            # Compaction may have removed the records and markers before the snapshot.
            continue
        before = scan([b for b in log.batches if b.last_offset < offset], offset)
        for wrong in compare_producers(found, before.producers, partial=is_partial(log)):
            yield Violation("I15", log.name, f"snapshot {offset}: {wrong}")


def compare_producers(
    found: dict[int, Producer], expected: dict[int, Producer], *, partial: bool
) -> Iterator[str]:
    """Yield a sentence for each difference. An idle producer may be missing in `found`, because it
    may have expired. A producer with an open transaction may not be missing."""
    for producer_id, wanted in sorted(expected.items()):
        held = found.get(producer_id)
        if held is None:
            if wanted.open_since >= 0:
                yield f"producer {producer_id} and its open transaction are missing"
        elif partial:
            if (held.epoch, held.open_since >= 0) != (wanted.epoch, wanted.open_since >= 0):
                yield f"producer {producer_id} is {held}, the log says {wanted}"
        elif held != wanted:
            yield f"producer {producer_id} is {held}, the log says {wanted}"
    if not partial:
        for producer_id in sorted(found.keys() - expected.keys()):
            yield f"producer {producer_id} is {found[producer_id]} but not in the log"
