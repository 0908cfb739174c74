"""Undecided records are not read, and they do not count as lost."""

from __future__ import annotations

import pytest

from oncelog_client.spark.source.plan.splits import OffsetRange
from oncelog_client.spark.source.plan.undecided import UndecidedError, beyond, check_decided
from oncelog_client.values import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
RANGES = [OffsetRange(A0, 0, 10), OffsetRange(A1, 0, 10), OffsetRange(B0, 12, 10)]


def test_the_high_watermark_is_needed_for_ranges_beyond_the_last_stable_offset() -> None:
    assert beyond(RANGES, {A0: 10, A1: 9, B0: 11}) == {A1, B0}


@pytest.mark.parametrize(
    ("high_watermarks", "named"),
    [
        ({}, []),
        ({A0: 9, B0: 11}, []),
        ({A0: 10, B0: 11}, [(A0, 10, 9)]),
        ({A0: 15, B0: 12}, [(A0, 10, 9), (B0, 12, 10)]),
    ],
)
def test_only_records_below_the_high_watermark_are_undecided(
    high_watermarks: dict[TopicPartition, int], named: list[tuple[TopicPartition, int, int]]
) -> None:
    stable_ends = {A0: 9, A1: 10, B0: 10}
    if not named:
        check_decided(RANGES, stable_ends, high_watermarks)
        return
    with pytest.raises(UndecidedError) as caught:
        check_decided(RANGES, stable_ends, high_watermarks)
    *lines, advice = str(caught.value).split("\n")
    assert lines == [
        f"topic {place.topic}, partition {place.partition} is not decided yet up to offset {asked}:"
        f" its last stable offset is {stable}"
        for place, asked, stable in named
    ]
    for place, _, _ in named:
        assert f"oncelog transactions blocking {place.topic}" in advice
