"""The entries of a segment's index files. Their offsets are relative to the segment's base
offset."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from oncelog_server.inspection.side_files import MalformedFile, offset_entries, time_entries

BASE = 1_000


def test_an_offset_index_has_offsets_and_positions() -> None:
    data = struct.pack(">iiii", 3, 70, 9, 400)
    assert offset_entries(data, BASE) == [(1_003, 70), (1_009, 400)]


def test_a_time_index_has_offsets_and_timestamps() -> None:
    data = struct.pack(">qiqi", 5_000, 3, 6_000, 9)
    assert time_entries(data, BASE) == [(1_003, 5_000), (1_009, 6_000)]


@pytest.mark.parametrize("entries", [offset_entries, time_entries])
def test_a_file_with_an_incomplete_entry_is_malformed(
    entries: Callable[[bytes, int], object],
) -> None:
    with pytest.raises(MalformedFile):
        entries(bytes(7), BASE)
