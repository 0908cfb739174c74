"""The audit finds each kind of violation, and names the fault that may have caused it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from oncelog_protocol.records.batch import build_batch
from tests.harness.writing import records
from tests.torture.cluster.audit import audit_writer
from tests.torture.cluster.replicas import differences
from tests.torture.cluster.timeline import Struck, Timeline
from tests.torture.cluster.writers import Idempotent, Plain, Writer

KILL = Struck(1, "kill -9 of a broker", "broker 2 (leader)", 10.0, 11.0, 12.0)
CUT = Struck(2, "cut between two brokers", "brokers 1 and 3", 20.0, 21.0, 22.0)
TIMELINE = Timeline([KILL, CUT])


def wrote(kind: type[Writer], acknowledged: int, attempted: int) -> Writer:
    """Return a producer that has written values, one each 10 s, beginning at 5 s."""
    writer = kind("w", "", "")
    values = [writer.value() for _ in range(attempted)]
    for number, value in enumerate(values[:acknowledged]):
        writer.written.append(value)
        writer.successes.append(5.0 + 10 * number)
    return writer


def test_a_lost_record_is_found_with_the_fault_of_its_acknowledgment() -> None:
    violations: list[str] = []
    found = {0: ["w-000001"], 1: ["w-000003"]}
    row = audit_writer(wrote(Idempotent, 3, 4), found, TIMELINE, violations)
    assert (row.acknowledged, row.lost, row.doubled, row.unknown) == (3, 1, 0, 1)
    assert violations == [f"w-000002 is lost (1 are); acknowledged at {KILL}"]


@pytest.mark.parametrize(("kind", "doubled"), [(Idempotent, 1), (Plain, 0)])
def test_a_doubled_record_counts_if_the_producer_promises_that_there_is_none(
    kind: type[Writer], doubled: int
) -> None:
    violations: list[str] = []
    found = {0: ["w-000001", "w-000002", "w-000002"]}
    row = audit_writer(wrote(kind, 1, 2), found, TIMELINE, violations)
    assert (row.lost, row.doubled, len(violations)) == (0, doubled, doubled)


def test_records_in_another_order_are_found() -> None:
    violations: list[str] = []
    audit_writer(wrote(Idempotent, 2, 2), {3: ["w-000002", "w-000001"]}, TIMELINE, violations)
    assert violations == ["w: partition 3 is not in order"]


def test_the_gap_is_the_longest_time_between_two_acknowledgments() -> None:
    row = audit_writer(wrote(Idempotent, 2, 2), {0: ["w-000001", "w-000002"]}, TIMELINE, [])
    assert row.longest_gap_s == 10.0


def replica(folder: Path, *batches: bytes | bytearray) -> Path:
    """Write a log with batches of one record each, and return the data directory."""
    place = folder / "t-0"
    place.mkdir(parents=True)
    for offset, batch in enumerate(batches):
        placed = struct.pack(">q", offset) + batch[8:]
        with (place / f"{offset // 2:020}.log").open("ab") as segment:
            segment.write(placed)
    return folder


def test_replicas_are_compared_below_the_high_watermark_over_all_segments(tmp_path: Path) -> None:
    batches = [build_batch(records(1, b"%d" % number)) for number in range(4)]
    whole = replica(tmp_path / "whole", *batches)
    longer = replica(tmp_path / "longer", *batches, batches[0])
    other = replica(tmp_path / "other", *batches[:3], batches[0])
    assert differences([whole, longer, other], {("t", 0): 3}) == []
    (found,) = differences([whole, longer, other], {("t", 0): 4})
    assert found.startswith("the replicas of t-0 differ: broker 3")
    (found,) = differences([whole, longer], {("t", 0): 5})
    assert found == "a replica lacks committed records: t-0 ends at 4, the high watermark is 5"
