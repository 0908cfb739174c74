"""Ranges are cut into tasks that cover exactly the same offsets, in order."""

from __future__ import annotations

from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.spark.source.plan.splits import OffsetRange, split
from oncelog_client.values import TopicPartition

sizes = st.lists(st.integers(0, 1_000), max_size=8)
counts = st.none() | st.integers(1, 40)


def ranges(*given_sizes: int) -> list[OffsetRange]:
    return [
        OffsetRange(TopicPartition("t", number), 100, 100 + size)
        for number, size in enumerate(given_sizes)
    ]


@pytest.mark.parametrize(
    ("given_sizes", "min_partitions", "max_records", "pieces"),
    [
        ((10, 20), None, None, [10, 20]),
        ((10, 0, 20), None, None, [10, 20]),
        ((10, 20), 2, None, [10, 20]),
        ((10, 20), 3, None, [10, 10, 10]),
        ((100, 1, 1), 4, None, [50, 50, 1, 1]),
        ((10, 20), None, 7, [5, 5, 6, 7, 7]),
        ((10, 20), 2, 10, [10, 10, 10]),
        ((10, 20), 6, 10, [5, 5, 5, 5, 5, 5]),
        ((2,), 5, None, [1, 1]),
        ((), 5, 5, []),
    ],
)
def test_examples_of_splits(
    given_sizes: tuple[int, ...],
    min_partitions: int | None,
    max_records: int | None,
    pieces: list[int],
) -> None:
    found = split(ranges(*given_sizes), min_partitions=min_partitions, max_records=max_records)
    assert [piece.size for piece in found] == pieces


@given(sizes, counts, counts)
def test_pieces_cover_every_range_exactly_and_in_order(
    given_sizes: list[int], min_partitions: int | None, max_records: int | None
) -> None:
    whole = [piece for piece in ranges(*given_sizes) if piece.size]
    pieces = split(whole, min_partitions=min_partitions, max_records=max_records)
    joined = []
    for partition, group in groupby(pieces, key=lambda piece: piece.partition):
        parts = list(group)
        assert all(before.end == after.start for before, after in pairwise(parts))
        joined.append(OffsetRange(partition, parts[0].start, parts[-1].end))
    assert joined == whole
    assert all(piece.size > 0 for piece in pieces)


@given(sizes, counts, st.integers(1, 40))
def test_no_piece_exceeds_the_maximum_number_of_records(
    given_sizes: list[int], min_partitions: int | None, max_records: int
) -> None:
    pieces = split(ranges(*given_sizes), min_partitions=min_partitions, max_records=max_records)
    assert all(piece.size <= max_records for piece in pieces)


@given(sizes, st.integers(1, 40))
def test_there_are_about_as_many_pieces_as_min_partitions(
    given_sizes: list[int], min_partitions: int
) -> None:
    pieces = split(ranges(*given_sizes), min_partitions=min_partitions, max_records=None)
    whole = sum(1 for size in given_sizes if size)
    least = min(min_partitions, sum(given_sizes))
    # Rounding costs each range at most half a piece.
    assert len(pieces) >= least - (whole + 1) // 2
    assert len(pieces) <= max(min_partitions + (whole + 1) // 2, whole)
