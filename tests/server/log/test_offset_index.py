"""The index from offsets to positions, in memory and as bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.log.offset_index import OffsetIndex

COLUMN = st.lists(st.integers(0, 2**31 - 2), unique=True, max_size=30).map(sorted)


def index_of(entries: list[tuple[int, int]]) -> OffsetIndex:
    index = OffsetIndex()
    for offset, position in entries:
        index.append(offset, position)
    return index


@given(COLUMN, COLUMN, st.integers(-1, 2**31 - 1))
def test_look_ups_have_the_results_of_a_list(
    offsets: list[int], positions: list[int], at: int
) -> None:
    entries = list(zip(offsets, positions, strict=False))
    index = index_of(entries)
    assert len(index) == len(entries)
    assert index.last() == (entries[-1] if entries else None)
    assert index.floor(at) == max((e for e in entries if e[0] <= at), default=None)
    assert index.ceiling(at) == min((e[0] for e in entries if e[1] >= at), default=None)


@given(COLUMN, COLUMN)
def test_the_file_is_pairs_of_big_endian_int32(offsets: list[int], positions: list[int]) -> None:
    entries = list(zip(offsets, positions, strict=False))
    data = index_of(entries).encode()
    assert list(struct.iter_unpack(">ii", data)) == entries
    decoded = OffsetIndex.decode(data, 2**31 - 1)
    assert decoded is not None
    assert decoded.encode() == data


@pytest.mark.parametrize(
    "entries",
    [
        [(5, 0), (5, 9)],
        [(5, 9), (6, 9)],
        [(6, 0), (5, 9)],
        [(-1, 0)],
        [(1, -5)],
        [(1, 100)],
        [(0, 0), (0, 0)],
    ],
)
def test_an_index_with_invalid_entries_is_not_used(entries: list[tuple[int, int]]) -> None:
    data = b"".join(struct.pack(">ii", *entry) for entry in entries)
    assert OffsetIndex.decode(data, log_size=100) is None


def test_an_index_with_half_an_entry_is_not_used() -> None:
    assert OffsetIndex.decode(bytes(7), 100) is None
