"""The index from timestamps to offsets, in memory and as bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.log.time_index import TimeIndex

BATCHES = st.lists(st.integers(0, 50), max_size=30)


@given(BATCHES, st.integers(-1, 60))
def test_an_entry_has_the_latest_time_of_all_batches_up_to_it(times: list[int], at: int) -> None:
    index = TimeIndex()
    latest, where = -1, 0
    for offset, time in enumerate(times):
        if time > latest:
            latest, where = time, offset
        index.append_if_later(latest, where)
    floor = index.floor(at)
    if floor is None:
        assert all(time > at for time in times[:1])
    else:
        timestamp, offset = floor
        assert timestamp <= at
        assert times[offset] == timestamp == max(times[: offset + 1])
    assert index.last() == ((latest, where) if times else None)
    data = index.encode()
    rows = list(struct.iter_unpack(">qi", data))
    assert len(rows) == len(index)
    assert rows == sorted(set(rows))
    decoded = TimeIndex.decode(data, len(times))
    assert decoded is not None
    assert decoded.encode() == data


@pytest.mark.parametrize(
    "rows", [[(5, 1), (5, 2)], [(6, 1), (5, 2)], [(5, 2), (6, 1)], [(-2, 0)], [(5, -1)], [(5, 11)]]
)
def test_a_time_index_with_invalid_entries_is_not_used(rows: list[tuple[int, int]]) -> None:
    data = b"".join(struct.pack(">qi", *row) for row in rows)
    assert TimeIndex.decode(data, last_relative_offset=10) is None
    assert TimeIndex.decode(data[:-1], last_relative_offset=10) is None
