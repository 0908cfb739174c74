"""A driver for a log on a disk in memory, and an oracle. The oracle computes the state of the log
again from the bytes of the `.log` files, by the simplest code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from oncelog_protocol.records.batch import BatchHeader, build_batch, read_records, split_batches
from oncelog_protocol.records.control import read_marker
from oncelog_protocol.records.record import NewRecord, Record
from oncelog_server.log import deletion
from oncelog_server.log.closed import ClosedLog
from oncelog_server.log.config import LogConfig
from oncelog_server.log.log import PartitionLog
from oncelog_server.log.producers import Producers
from oncelog_server.log.results import Appended, LogRead, Origin
from oncelog_server.slices import at_its_end
from oncelog_server.storage.files import Files, StorageError
from tests.server.storage.memory_files import MemoryFiles

DIRECTORY = "topic-0"
TOPIC_ID = bytes(range(16))
NOW_MS = 1_700_000_000_000
MANY = 1 << 30
# A leader epoch at or above that of every batch.
ANY_EPOCH = (1 << 31) - 1
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200, file_delete_delay_ms=0)


def records(count: int, *, timestamp: int = NOW_MS, size: int = 20) -> list[NewRecord]:
    return [NewRecord(timestamp + n, b"k%d" % n, bytes(size)) for n in range(count)]


def batch(count: int = 1, *, timestamp: int = NOW_MS, size: int = 20, **fields: Any) -> bytearray:
    return build_batch(records(count, timestamp=timestamp, size=size), **fields)


def read_all(log: PartitionLog, offset: int | None = None, limit: int = MANY) -> list[Record]:
    """Return the records that a reader of `log` gets up to the end, including markers."""
    position = log.log_start_offset if offset is None else offset
    found: list[Record] = []
    while True:
        answer = log.read(position, 400, limit=limit, at_least_one=True)
        if answer.records is None:
            return found
        data = answer.records.read()
        for start, header in split_batches(data, allow_partial=True):
            found += [
                record
                for record in read_records(data, start, max_bytes=MANY)
                if record.offset >= position
            ]
            position = header.next_offset


def delete_records_before(log: PartitionLog, offset: int, now_ms: int) -> None:
    at_its_end(deletion.delete_records_before(log, offset, now_ms))


def apply_retention(log: PartitionLog, now_ms: int, high_watermark: int) -> int:
    return at_its_end(deletion.apply_retention(log, now_ms, high_watermark))


def flush(log: PartitionLog, done: Callable[[StorageError | None], None]) -> None:
    """Sync everything appended. The recovery point moves once the sync has ended."""
    begun = log.begin_flush()

    def synced(error: StorageError | None) -> None:
        log.finish_flush(begun, error)
        done(error)

    log.files.sync(begun.files, synced)


def batches_of(answer: LogRead) -> list[BatchHeader]:
    if answer.records is None:
        return []
    return [header for _, header in split_batches(answer.records.read(), allow_partial=True)]


@dataclass
class Driver:
    """`log` and its disk. `restart` and similar methods close the log and open it again."""

    config: LogConfig = SMALL
    files: MemoryFiles = field(default_factory=MemoryFiles)
    now_ms: int = NOW_MS
    leader_epoch: int = 0

    def __post_init__(self) -> None:
        self.log = self.open(clean=False)

    def open(
        self, *, clean: bool, recovery_point: int = 0, log_start_offset: int = 0,
        files: Files | None = None, closed: ClosedLog | None = None, refuses_damage: bool = False,
        lost_nothing: bool = False,
    ) -> PartitionLog:  # fmt: skip
        return PartitionLog.open(
            files or self.files,
            DIRECTORY,
            self.config,
            topic_id=TOPIC_ID,
            now_ms=self.now_ms,
            clean_shutdown=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            closed=closed,
            refuses_damage=refuses_damage,
            lost_nothing=lost_nothing,
        )

    def append(self, data: bytearray, origin: Origin = Origin.CLIENT) -> Appended:
        return self.log.append(
            data, leader_epoch=self.leader_epoch, now_ms=self.now_ms, origin=origin
        )

    def plain(self, count: int = 1, **fields: Any) -> Appended:
        return self.append(batch(count, **fields))

    def send(
        self, producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0,
        transactional: bool = False, **fields: Any,
    ) -> Appended:  # fmt: skip
        data = batch(
            count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
            is_transactional=transactional, **fields,
        )  # fmt: skip
        return self.append(data)

    def mark(
        self, producer_id: int, *, epoch: int = 0, committed: bool = True,
        coordinator_epoch: int = 0, version: int = 1,
    ) -> Appended:  # fmt: skip
        return self.log.append_marker(
            producer_id, epoch, committed=committed, coordinator_epoch=coordinator_epoch,
            transaction_version=version, leader_epoch=self.leader_epoch, now_ms=self.now_ms,
        )  # fmt: skip

    def stop(self) -> tuple[int, int]:
        """Stop cleanly. Return the recovery point and the log start offset, as the checkpoints
        would have them."""
        files = self.log.close(clean=True)
        self.files.sync(files, lambda error: None)
        self.files.settle()
        return self.log.log_end_offset, self.log.log_start_offset

    def restart(self) -> PartitionLog:
        recovery_point, start = self.stop()
        self.log = self.open(
            clean=True,
            recovery_point=recovery_point,
            log_start_offset=start,
            closed=self.log.remembered(),
        )
        return self.log

    def kill(self) -> PartitionLog:
        """Kill the process and start another one, with the checkpoints as last written."""
        point, start = self.log.recovery_point, self.log.log_start_offset
        self.files = self.files.after_kill()
        self.log = self.open(clean=False, recovery_point=point, log_start_offset=start)
        return self.log


@dataclass
class Oracle:
    """The state of a log, computed from its bytes from the first segment to the end."""

    records: list[Record] = field(default_factory=list)
    # First and last offset of each batch.
    positions: list[tuple[int, int]] = field(default_factory=list)
    sequences: list[tuple[int, int, int]] = field(default_factory=list)
    # producer id -> (epoch, coordinator epoch, last sequence, last offset, start of open txn)
    producers: dict[int, tuple[int, int, int, int, int]] = field(default_factory=dict)
    # (producer id, first offset, offset of marker, committed), in the order of the markers
    completed: list[tuple[int, int, int, bool]] = field(default_factory=list)
    end_offset: int = 0

    def first_unstable(self, high_watermark: int) -> int | None:
        undecided = [entry[4] for entry in self.producers.values() if entry[4] >= 0]
        above = [first for _, first, last, _ in self.completed if last >= high_watermark]
        return min(undecided + above, default=None)

    def aborted(self, first_offset: int, end_offset: int) -> list[tuple[int, int, int]]:
        return [
            (producer_id, first, last)
            for producer_id, first, last, committed in self.completed
            if not committed and last >= first_offset and first < end_offset
        ]


def full_scan(data: Iterable[bytes]) -> Oracle:
    """Return the state of the log with these `.log` files, in order."""
    oracle = Oracle()
    for content in data:
        for position, header in split_batches(content):
            oracle.positions.append((header.base_offset, header.last_offset))
            found = read_records(content, position, max_bytes=MANY)
            oracle.records += found
            oracle.end_offset = header.next_offset
            if header.producer_id < 0:
                continue
            epoch, coordinator, sequence, last, first = oracle.producers.get(
                header.producer_id, (-1, -1, -1, -1, -1)
            )
            if epoch != header.producer_epoch:
                sequence = last = -1
            if header.is_control:
                marker = read_marker(found[0])
                assert marker is not None
                if first >= 0:
                    oracle.completed.append(
                        (header.producer_id, first, header.base_offset, marker.committed)
                    )
                first, coordinator = -1, marker.coordinator_epoch
            else:
                for n in range(header.records_count):
                    number = (header.base_sequence + n) & 0x7FFFFFFF
                    oracle.sequences.append((header.producer_id, header.producer_epoch, number))
                sequence, last = header.last_sequence, header.last_offset
                if header.is_transactional and first < 0:
                    first = header.base_offset
            oracle.producers[header.producer_id] = (
                header.producer_epoch, coordinator, sequence, last, first,
            )  # fmt: skip
    return oracle


def oracle_of(files: MemoryFiles) -> Oracle:
    paths = sorted(path for path in files.nodes if path.endswith(".log"))
    return full_scan(bytes(files.nodes[path].data) for path in paths)


def producers_of(producers: Producers) -> dict[int, tuple[int, int, int, int, int]]:
    return {
        entry.producer_id: (
            entry.producer_epoch, entry.coordinator_epoch, entry.last_sequence,
            entry.last_offset, entry.current_txn_first_offset,
        )
        for entry in producers
    }  # fmt: skip


def check_invariants(log: PartitionLog, files: MemoryFiles, high_watermark: int = MANY) -> None:
    """Check the invariants I2, I3, I14 and I15 (docs/testing.md) against the bytes. The log must
    have all its segments."""
    oracle = oracle_of(files)
    assert log.log_end_offset == oracle.end_offset
    assert producers_of(log.producers) == oracle.producers
    assert len(set(oracle.sequences)) == len(oracle.sequences)
    expected = oracle.first_unstable(high_watermark)
    if expected is not None:
        expected = max(expected, log.log_start_offset)
    assert log.first_unstable_offset(high_watermark) == expected
    ends = sorted({0, oracle.end_offset, *(first for first, _ in oracle.positions[::3])})
    for first in ends:
        for end in ends:
            found = [row[:3] for row in log.aborted_transactions(first, end)]
            assert found == oracle.aborted(first, end), (first, end)
    assert read_all(log) == [r for r in oracle.records if r.offset >= log.log_start_offset]


def busy(driver: Driver | None = None) -> Driver:
    """Return a driver with a log of several segments: plain, idempotent and transactional batches,
    aborts across segments, and an open transaction at the end."""
    driver = driver or Driver()
    for turn in range(9):
        driver.plain(2, timestamp=driver.now_ms + turn * 7 % 40)
        driver.send(1, turn * 2, 2)
        driver.send(2, turn * 2, 2, transactional=True, size=60)
        driver.send(3, turn, 1, transactional=True)
        if turn % 3 == 1:
            driver.mark(2, committed=False)
        if turn % 2:
            driver.mark(3, committed=turn == 3, coordinator_epoch=turn)
        driver.leader_epoch += turn % 2
    assert len(driver.log.segments) >= 3
    return driver


def logs_in(files: MemoryFiles) -> list[str]:
    return sorted(path for path in files.nodes if path.endswith(".log"))


def timestamps_of(log: PartitionLog) -> list[object]:
    start = 1_700_000_000_000
    return [
        at_its_end(log.max_timestamp_offset()),
        *(at_its_end(log.offset_for_timestamp(start + n, 1 << 40)) for n in range(-1, 45, 3)),
    ]
