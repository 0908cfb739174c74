"""A table of manipulations of a log's files while no broker runs, with the outcome of each. Either
every record is served, or the start or a read refuses the log, or the start reports a truncation.
The last three members of `Outcome` are the exceptions (S2-S8, S14)."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final

import pytest

from oncelog_protocol.records.batch import build_batch, read_records, split_batches
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import NewRecord
from oncelog_server.coordinator.loading import replay_log
from oncelog_server.coordinator.shard import CoordinatorRecord, TransactionOfRecords
from oncelog_server.log.closed import ClosedLog
from oncelog_server.log.config import LogConfig
from oncelog_server.log.errors import CorruptLog, InconsistentTopicId, OffsetOutOfRange
from oncelog_server.log.log import PartitionLog
from tests.server.log.driver import DIRECTORY, MANY, NOW_MS, SMALL, TOPIC_ID, Driver
from tests.server.partition.partitions import held_by
from tests.server.storage.memory_files import FileNode, MemoryFiles

SEGMENTS: Final = 4
BATCHES: Final = 3
Rows = list[tuple[int, bytes | None, bytes | None]]
Tampering = Callable[[MemoryFiles], None]


class Outcome(Enum):
    """The possible outcomes. The last three happen only if neither a checksum nor a checkpoint
    covers the change."""

    WHOLE = "W"
    # The start of the log fails, or its load by the coordinator.
    REFUSED = "R"
    # The read fails, because the position has no batch, or a batch with a different offset.
    FOUND = "F"
    # Records are missing, and the recovery reports it.
    CUT = "C"
    # Every record is there, but the last records have later offsets.
    MOVED = "M"
    # The end of the last segment is missing.
    END = "E"
    # Records in the middle of the log are missing.
    HALF = "H"


class Stop(Enum):
    """The ways in which the broker ended. After a kill the computer kept running. A power failure
    may have lost records above the recovery point, which is 0 here."""

    CLEAN = "clean stop"
    KILL = "kill"
    POWER = "power failure"


class Replayed:
    """A shard that keeps the records that it replays."""

    def __init__(self) -> None:
        self.rows: Rows = []

    def replay(
        self, record: CoordinatorRecord, *, offset: int, transaction: TransactionOfRecords | None
    ) -> None:
        self.rows.append((offset, record.key, record.value))

    def replay_marker(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        raise AssertionError("no transaction was written")


def written(config: LogConfig) -> tuple[Driver, Rows]:
    """Write segments of batches with different keys, by one idempotent producer."""
    driver, rows = Driver(config), Rows()
    for number in range(SEGMENTS * BATCHES):
        if number and number % BATCHES == 0:
            driver.log.roll(driver.now_ms)
        key, value = b"key-%03d" % number, b"value-%03d" % number * 33
        data = build_batch(
            [NewRecord(NOW_MS + number, key, value)],
            producer_id=7, producer_epoch=0, base_sequence=number,
        )  # fmt: skip
        driver.append(data)
        rows.append((number, key, value))
    driver.files.settle()
    return driver, rows


def outcome(tamper: Tampering, stop: Stop, *, coordinator: bool) -> Outcome:
    config = LogConfig(cleanup_policy=frozenset({"compact"})) if coordinator else SMALL
    driver, rows = written(config)
    point = driver.stop()[0] if stop is Stop.CLEAN else 0
    closed = driver.log.remembered() if stop is Stop.CLEAN else None
    driver.files = driver.files.after_kill()
    tamper(driver.files)
    found = look(driver, stop, point, closed, rows, coordinator=coordinator)
    if found is Outcome.REFUSED:
        again = look(driver, stop, point, closed, rows, coordinator=coordinator)
        assert again is found, "the next start has the same outcome"
    return found


def look(
    driver: Driver, stop: Stop, point: int, closed: ClosedLog | None, rows: Rows, *,
    coordinator: bool,
) -> Outcome:  # fmt: skip
    try:
        log = PartitionLog.open(
            driver.files,
            DIRECTORY,
            driver.config,
            topic_id=TOPIC_ID,
            now_ms=NOW_MS,
            clean_shutdown=stop is Stop.CLEAN,
            recovery_point=point,
            log_start_offset=0,
            refuses_damage=coordinator,
            lost_nothing=stop is Stop.KILL,
            closed=closed,
        )
        found = replayed(log) if coordinator else read(log)
    except (CorruptLog, InconsistentTopicId):
        return Outcome.REFUSED
    except (CorruptRecords, OffsetOutOfRange):
        return Outcome.FOUND
    except ValueError:
        assert coordinator
        return Outcome.REFUSED
    if found == rows:
        return Outcome.WHOLE
    values = [row[1:] for row in found]
    expected = [row[1:] for row in rows]
    if values == expected:
        return Outcome.MOVED
    report = log.recovery
    is_prefix = values == expected[: len(values)]
    if report.is_loud and report.cut_path and (is_prefix or not coordinator):
        return Outcome.CUT
    return Outcome.END if is_prefix else Outcome.HALF


def replayed(log: PartitionLog) -> Rows:
    shard = Replayed()
    for _ in replay_log(held_by(log), shard):
        pass
    return shard.rows


def read(log: PartitionLog) -> Rows:
    """Read as a consumer does. Raises CorruptRecords if the consumer would get no record."""
    rows, position = Rows(), log.log_start_offset
    while True:
        answer = log.read(position, 400, limit=MANY, at_least_one=True)
        if answer.records is None:
            return rows
        data, before = answer.records.read(), position
        for start, header in split_batches(data, allow_partial=True):
            for read_record in read_records(data, start, max_bytes=MANY):
                if read_record.offset >= position:
                    rows.append((read_record.offset, read_record.key, read_record.value))
            position = header.next_offset
        if position <= before:
            raise CorruptRecords(f"nothing at offset {before} or later")


# --- manipulations


def path_of(files: MemoryFiles, slot: int, suffix: str = ".log") -> str:
    logs = sorted(path for path in files.nodes if path.endswith(".log"))
    return logs[slot].removesuffix(".log") + suffix


def data_of(files: MemoryFiles, slot: int) -> bytearray:
    return files.nodes[path_of(files, slot)].data


def spans(data: bytes | bytearray) -> list[tuple[int, int]]:
    return [(start, start + header.size) for start, header in split_batches(bytes(data))]


def remove(slot: int, suffix: str, files: MemoryFiles) -> None:
    """Remove the segment's file with this suffix, or with "*" all files of the segment."""
    path = path_of(files, slot)
    if suffix == "*":
        for node in [node for node in files.nodes if node.startswith(path.removesuffix(".log"))]:
            del files.nodes[node]
    else:
        del files.nodes[path.removesuffix(".log") + suffix]


def cut(slot: int, keep: int, left: int, files: MemoryFiles) -> None:
    """Cut the file after `keep` batches and `left` bytes of the next batch."""
    data = data_of(files, slot)
    del data[([0] + [end for _, end in spans(data)])[keep] + left :]


def flip(slot: int, batch: int, position: int, bit: int, files: MemoryFiles) -> None:
    data = data_of(files, slot)
    data[spans(data)[batch][0] + position] ^= bit


def zero(slot: int, batch: int, files: MemoryFiles) -> None:
    data = data_of(files, slot)
    start, end = spans(data)[batch]
    data[start:end] = bytes(end - start)


def rename(slot: int, by: int, files: MemoryFiles) -> None:
    path = path_of(files, slot)
    offset = int(path.rpartition("/")[2].removesuffix(".log"))
    files.nodes[f"{DIRECTORY}/{offset + by:020d}.log"] = files.nodes.pop(path)


def swap_segments(first: int, second: int, files: MemoryFiles) -> None:
    source, other = path_of(files, first), path_of(files, second)
    files.nodes[source], files.nodes[other] = files.nodes[other], files.nodes[source]


def duplicate(slot: int, batch: int, files: MemoryFiles) -> None:
    data = data_of(files, slot)
    start, end = spans(data)[batch]
    data[end:end] = data[start:end]


def swap_batches(slot: int, batch: int, files: MemoryFiles) -> None:
    """Swap a batch with the next batch. Both have the same length."""
    data = data_of(files, slot)
    (start, middle), (_, end) = spans(data)[batch : batch + 2]
    data[start:end] = data[middle:end] + data[start:middle]


def drop_batch(slot: int, batch: int, files: MemoryFiles) -> None:
    data = data_of(files, slot)
    start, end = spans(data)[batch]
    del data[start:end]


def write(name: str, content: bytes, files: MemoryFiles) -> None:
    files.nodes[f"{DIRECTORY}/{name}"] = FileNode(bytearray(content))


def garble(suffix: str, files: MemoryFiles) -> None:
    """Change one bit of each byte, in every file of a kind."""
    for path, node in files.nodes.items():
        if path.endswith(suffix):
            node.data[:] = bytes(byte ^ 0x10 for byte in node.data)


def unlink(suffix: str, files: MemoryFiles) -> None:
    for path in [path for path in files.nodes if path.endswith(suffix)]:
        del files.nodes[path]


CLOSED, LAST = 1, SEGMENTS - 1
FIELDS = {
    "base offset": 7, "length": 11, "leader epoch": 15, "magic": 16, "crc": 20, "attributes": 22,
    "last offset delta": 26, "base timestamp": 34, "max timestamp": 42, "producer id": 50,
    "producer epoch": 52, "sequence": 56, "count": 60, "record": 100,
}  # fmt: skip

TAMPERINGS: dict[str, Tampering] = {}
for _slot, _name in ((0, "first"), (CLOSED, "closed"), (LAST, "last")):
    TAMPERINGS |= {
        f"{_name}: log removed": partial(remove, _slot, ".log"),
        f"{_name}: segment removed": partial(remove, _slot, "*"),
        f"{_name}: emptied": partial(cut, _slot, 0, 0),
        f"{_name}: cut at a batch": partial(cut, _slot, 1, 0),
        f"{_name}: cut before its last batch": partial(cut, _slot, 2, 0),
        f"{_name}: renamed": partial(rename, _slot, 1),
        f"{_name}: batch duplicated": partial(duplicate, _slot, 1),
        f"{_name}: batches swapped": partial(swap_batches, _slot, 1),
        f"{_name}: batch taken out": partial(drop_batch, _slot, 1),
        f"{_name}: batch zeroed": partial(zero, _slot, 1),
    }
    for _left in (1, 8, 12, 16, 17, 60, 61):
        TAMPERINGS[f"{_name}: cut {_left} into a batch"] = partial(cut, _slot, 1, _left)
    for _field, _at in FIELDS.items():
        for _bit in (1, 0x40) if _field in ("base offset", "length") else (1,):
            for _batch in range(BATCHES):
                TAMPERINGS[f"{_name}: {_field} of {_batch} ^ {_bit}"] = partial(
                    flip, _slot, _batch, _at, _bit
                )
TAMPERINGS |= {
    "segments swapped": partial(swap_segments, 0, CLOSED),
    "closed and last swapped": partial(swap_segments, CLOSED, LAST),
    **{f"{name} garbled": partial(garble, name) for name in (
        ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint", "txn-index-checkpoint",
        "partition.metadata",
    )},
    **{f"{name} gone": partial(unlink, name) for name in (
        ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint", "txn-index-checkpoint",
        "partition.metadata",
    )},
}  # fmt: skip


# The first three letters are the outcomes for a coordinator's log, one for each `Stop`. The last
# three are the outcomes for a user's log, which is truncated and read as in Kafka. The first
# matching pattern counts.
EXPECTED: Final = {
    # No checksum covers the leader epoch. A recovery sees a raised epoch at the next batch (B21).
    r"last: leader epoch of 2 .*": "WWW WWW",
    r".*: leader epoch of .*": "WRC WCC",
    r".* (garbled|gone)": "WWW WWW",
    # After a kill, no other file shows that the last records existed.
    r"last: (log|segment) removed|last: emptied|last: cut (at a|before its last) batch": "REE REE",
    r"last: cut .* into a batch": "RCC RCC",
    r"last: length of 2 .*": "RCC RCC",
    r"last: magic of 2 .*": "RCC RCC",
    # Retention removes first segments too, so their loss is not always noticed.
    r"first: (log|segment) removed": "RRC HHH",
    r"first: renamed": "RRC RCC",
    r"(first|closed): (emptied|cut .*)": "RRC RCC",
    # After a power failure that may have lost the checkpoint, the gap looks like one of compaction.
    r"last: batch taken out": "RRH RHH",
    r".*: batch taken out": "RRH RHH",
    r".*: batch zeroed": "RRC FCC",
    r"segments swapped|closed and last swapped": "RRR RCC",
    r"closed: (renamed|log removed|segment removed)": "RRC RCC",
    r".*: (renamed|batch duplicated|batches swapped)": "RRR RCC",
    # No checksum covers the base offset. Readers skip batches with too low an offset, as in Kafka.
    r"last: base offset of 2 \^ 64": "MRM MMM",
    r"first: base offset of (0|2) \^ 1": "RRR HCC",
    r".*: base offset of 0 .*|(first|closed): base offset of 2 \^ 64": "RRR FCC",
    r".*: base offset of .*": "RRR RCC",
    r".*: (length|magic) of 0 .*|.*: length of 1 .*|(first|closed): length of 2 \^ 64": "RRR FCC",
    r".*: length of .*": "RRR RCC",
    r".*: magic of .*|.*: last offset delta of 1 .*": "RRR RCC",
    r"last: .* of 2 .*": "RCC FCC",  # a torn end with nothing after it
    r".*": "RRR FCC",
}


def expected(name: str) -> str:
    return next(row for pattern, row in EXPECTED.items() if re.fullmatch(pattern, name))


@pytest.mark.parametrize("stop", Stop, ids=lambda stop: stop.value)
@pytest.mark.parametrize("coordinator", [True, False], ids=["coordinator", "user"])
def test_each_tampering_has_the_outcome_of_its_row(stop: Stop, coordinator: bool) -> None:
    place = list(Stop).index(stop) + (0 if coordinator else 4)
    found = {
        name: outcome(tampering, stop, coordinator=coordinator)
        for name, tampering in TAMPERINGS.items()
    }
    wrong = {
        name: f"{record.value}, not {expected(name)[place]}"
        for name, record in found.items()
        if record.value != expected(name)[place]
    }
    assert not wrong


def test_a_coordinator_serves_a_part_of_its_log_only_after_a_power_failure() -> None:
    """A coordinator's log has the outcome HALF only after a power failure, and only if a batch was
    taken out. Check each row of the table."""
    for name in TAMPERINGS:
        clean, kill, power = list(expected(name)[:3])
        assert clean in "WRM", name
        assert kill in "WRC" or (kill == "E" and name.startswith("last: ")), name
        assert power != "H" or name.endswith("batch taken out"), name
