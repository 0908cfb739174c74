"""Scans of the batches in a file give the same result with reads of any size."""

from __future__ import annotations

import pytest

from oncelog_protocol.records.batch import split_batches
from oncelog_server.inspection.batches import RawBatches
from oncelog_server.log.scan import Scan, find_valid_batch
from tests.server.log.driver import batch
from tests.server.storage.memory_files import MemoryFile, MemoryFiles

BATCHES = [batch(1 + n % 3, base_offset=n * 3, size=n * 37 % 400) for n in range(20)]
DATA = b"".join(BATCHES)


def file_with(data: bytes) -> MemoryFile:
    file = MemoryFiles().open("f", create=True)
    file.append(data)
    return file


@pytest.mark.parametrize("chunk_size", [61, 100, 500, 1 << 20])
@pytest.mark.parametrize("check_crc", [False, True])
def test_every_batch_is_seen_once(chunk_size: int, check_crc: bool) -> None:
    scan = Scan(file_with(DATA), check_crc=check_crc, chunk_size=chunk_size)
    seen = []
    for (position, header), expected in zip(scan, BATCHES, strict=True):
        assert scan.batch() == expected
        seen.append((position, header))
    assert seen == list(split_batches(DATA))
    assert (scan.problem, scan.position, scan.next_offset) == (
        None,
        len(DATA),
        seen[-1][1].next_offset,
    )


@pytest.mark.parametrize("chunk_size", [61, 500, 1 << 20])
def test_a_scan_reports_a_truncated_batch_at_its_first_byte(chunk_size: int) -> None:
    for cut in range(1, len(BATCHES[-1])):
        scan = Scan(file_with(DATA[:-cut]), chunk_size=chunk_size)
        assert len(list(scan)) == 19
        assert scan.problem
        assert scan.position == len(DATA) - len(BATCHES[-1])


def test_a_batch_smaller_than_a_header_is_a_problem_with_its_own_reason() -> None:
    short = bytearray(BATCHES[0])
    short[8:12] = (48).to_bytes(4)
    scan = Scan(file_with(bytes(short)))
    assert list(scan) == []
    assert scan.problem == "a batch of 60 bytes, less than the 61 of a header"
    raw = RawBatches(file_with(bytes(short)))
    assert list(raw) == []
    assert raw.problem == scan.problem


def test_offsets_that_go_back_are_a_problem() -> None:
    scan = Scan(file_with(bytes(BATCHES[1] + BATCHES[0])))
    assert len(list(scan)) == 1
    assert scan.problem is not None
    assert "offsets 0..0" in scan.problem


def test_zeros_are_no_batch() -> None:
    scan = Scan(file_with(DATA + bytes(200)))
    assert len(list(scan)) == 20
    assert scan.problem == "message format v0 is not supported"


def test_a_whole_batch_is_found_after_garbage() -> None:
    last = bytes(BATCHES[-1])
    assert find_valid_batch(b"\x02" * 99 + last + b"tail", 0) == 99
    assert find_valid_batch(b"\x02" * 99 + last + b"tail", 57) == 99
    assert find_valid_batch(b"\x02" * 99 + last + b"tail", 58) is None
    assert find_valid_batch(last[:-1], 0) is None
    assert find_valid_batch(bytes(500), 0) is None


def test_a_position_is_confirmed_only_if_a_batch_begins_there() -> None:
    """An index file may point to other bytes that have the same last offset."""
    (_, first), (position, second) = list(split_batches(DATA))[:2]
    assert Scan(file_with(DATA)).begins_with(first.last_offset)
    assert Scan(file_with(DATA), position).begins_with(second.last_offset)
    assert not Scan(file_with(DATA), position).begins_with(first.last_offset)
    assert not Scan(file_with(DATA), len(DATA)).begins_with(second.last_offset)
    no_batch = bytearray(DATA)
    no_batch[16] = 1  # the message format
    assert not Scan(file_with(bytes(no_batch))).begins_with(first.last_offset)
    assert not Scan(file_with(DATA[: first.size - 1])).begins_with(first.last_offset)
    assert not Scan(file_with(DATA), next_offset=1).begins_with(first.last_offset)
