"""The running broker's memory as plain values, to be compared with its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.simulation.checking.decisions import lives_of
from tests.simulation.checking.internal_records import Transition, replay_offsets
from tests.simulation.checking.invariants import group_logs
from tests.simulation.checking.logs import (
    TRANSACTION_STATE,
    AbortedRow,
    PartitionLog,
    Producer,
    TopicPartition,
)
from tests.simulation.checking.partition_rules import compare_producers, is_partial, rows_agree
from tests.simulation.checking.violations import Violation


@dataclass(frozen=True, slots=True)
class LivePartition:
    """A partition in the broker's memory. `aborted`: the aborted transactions of the whole log, or
    None if they were not read.

    `producers`: by producer id. `aborted_by_segment`: the `.txnindex` rows that are in memory, by
    the segment's base offset.
    """

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    producers: Mapping[int, Producer] = field(default_factory=dict)
    aborted: tuple[AbortedRow, ...] | None = None
    aborted_by_segment: Mapping[int, tuple[AbortedRow, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LiveTransaction:
    """A transactional id in the coordinator's memory. `state` is the number on disk (KIP-98)."""

    producer_id: int
    epoch: int
    state: int
    partitions: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A broker's memory. `transactions`: by partition of the coordinator's log and transactional
    id. `group_offsets` and `pending_offsets`: by (group, topic, partition), or None if not read.
    For a pending offset, OffsetFetch returns UNSTABLE_OFFSET_COMMIT."""

    partitions: Mapping[TopicPartition, LivePartition] = field(default_factory=dict)
    transactions: Mapping[tuple[int, str], LiveTransaction] | None = None
    group_offsets: Mapping[tuple[str, str, int], int] | None = None
    pending_offsets: frozenset[tuple[str, str, int]] | None = None


def check_live(
    logs: Mapping[TopicPartition, PartitionLog], broker: LiveBroker, *, settled: bool = False
) -> list[Violation]:
    """Check I2, I12, I14 and I15: compare the broker's memory with the files.

    The files must include the page cache, as the broker sees it. If a high watermark lags, the
    coordinator's memory is compared with the records below it. `settled`: LSO = HW = LEO must hold
    (I8).
    """
    found: list[Violation] = []
    for key, live in sorted(broker.partitions.items()):
        log = logs.get(key) or PartitionLog(*key, logs={live.log_start_offset: b""})
        log.high_watermark, log.log_start = live.high_watermark, live.log_start_offset
        found += _check_offsets(log, live, settled)
        for wrong in compare_producers(
            dict(live.producers), log.whole.producers, partial=is_partial(log)
        ):
            found.append(Violation("I15", log.name, wrong))
        rows = [row for row in log.whole.rows if row.last_offset >= log.start]
        if live.aborted is not None and not rows_agree(
            list(live.aborted), rows, partial=is_partial(log)
        ):
            found.append(Violation("I14", log.name, f"memory has {live.aborted}, the log {rows}"))
        found += _check_rows(log, live)
    return [*found, *_check_transactions(logs, broker), *_check_groups(logs, broker)]


def _check_rows(log: PartitionLog, live: LivePartition) -> Iterator[Violation]:
    bases = sorted(log.logs)
    for base, next_base in zip(bases, [*bases[1:], log.end], strict=True):
        held = live.aborted_by_segment.get(base)
        expected_rows = [row for row in log.whole.rows if base <= row.last_offset < next_base]
        if held is not None and not rows_agree(list(held), expected_rows, partial=is_partial(log)):
            yield Violation(
                "I14", log.name, f"segment {base}: memory has {held}, the log {expected_rows}"
            )


def _check_offsets(log: PartitionLog, live: LivePartition, settled: bool) -> Iterator[Violation]:
    start, stable = live.log_start_offset, live.last_stable_offset
    high, end = live.high_watermark, live.log_end_offset
    if not start <= stable <= high <= end:
        yield Violation(
            "I2", log.name, f"not in order: start {start}, LSO {stable}, HW {high}, end {end}"
        )
    if end != log.end:
        yield Violation("I2", log.name, f"the end is {end}, the files say {log.end}")
    if stable != log.stable_end():
        yield Violation("I2", log.name, f"LSO {stable}, the files say {log.stable_end()}")
    if settled and not stable == high == end:
        yield Violation("I8", log.name, f"not equal at last: LSO {stable}, HW {high}, end {end}")


def _check_transactions(
    logs: Mapping[TopicPartition, PartitionLog], broker: LiveBroker
) -> Iterator[Violation]:
    """Check that the coordinator's memory equals the state that a replay of its log gives."""
    if broker.transactions is None:
        return
    replayed: dict[tuple[int, str], Transition] = {}
    for life in lives_of(logs)[0]:
        end = logs[TRANSACTION_STATE, life.partition].committed_end
        known = [transition for transition in life.transitions if transition.offset < end]
        if known and known[-1].state is not None:
            replayed[life.partition, life.transactional_id] = known[-1]
    for name in sorted(replayed.keys() | broker.transactions.keys()):
        wanted, held = replayed.get(name), broker.transactions.get(name)
        if wanted is None or held is None:
            yield Violation("I12", str(name), f"memory has {held}, the log {wanted}")
            continue
        expected = LiveTransaction(
            wanted.producer_id,
            wanted.epoch,
            wanted.state or 0,
            wanted.partitions,
        )
        if held != expected:
            yield Violation("I12", str(name), f"memory has {held}, the log {expected}")


def _check_groups(
    logs: Mapping[TopicPartition, PartitionLog], broker: LiveBroker
) -> Iterator[Violation]:
    offsets = replay_offsets(group_logs(logs))
    if broker.group_offsets is not None:
        for key in sorted(offsets.committed.keys() | broker.group_offsets.keys()):
            held, expected = broker.group_offsets.get(key), offsets.committed.get(key)
            if held != expected:
                what = f"{key}: memory has {held}, the log {expected}"
                yield Violation("I12", "__consumer_offsets", what)
    if broker.pending_offsets is not None and broker.pending_offsets != offsets.pending.keys():
        what = f"pending {sorted(broker.pending_offsets)}, the log says {sorted(offsets.pending)}"
        yield Violation("I12", "__consumer_offsets", what)
