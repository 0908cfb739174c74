"""The choice of segments that compaction merges, and the indexes of the result."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oncelog_server.log.aborted import AbortedTransactions
from oncelog_server.log.cleaner.cleanable import cleanable
from oncelog_server.log.cleaner.job import Source
from oncelog_server.log.cleaner.segments import LARGEST_GROUP, group
from oncelog_server.log.config import LogConfig
from oncelog_server.log.offset_index import MAX_RELATIVE_OFFSET
from tests.server.log.cleaner.compacting import Compacting
from tests.server.log.driver import DIRECTORY, NOW_MS
from tests.server.storage.memory_files import FileNode, MemoryFiles

CONFIG = LogConfig(segment_bytes=100, segment_index_bytes=40)


def sources(*sizes: int, width: int = 10) -> list[Source]:
    return [
        Source(at * width, (at + 1) * width, f"{at * width:020}.log", size)
        for at, size in enumerate(sizes)
    ]


def grouped(found: list[Source], files: MemoryFiles | None = None) -> list[list[int]]:
    groups = group(found, files or MemoryFiles(), CONFIG)
    return [[source.base_offset for source in group] for group in groups]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([100], [[0]]),
        ([50, 50, 1], [[0, 10], [20]]),
        ([200, 10, 10], [[0], [10, 20]]),
        ([0, 0, 100, 1], [[0, 10, 20], [30]]),
    ],
)
def test_neighbors_are_merged_while_their_bytes_fit(
    sizes: list[int], expected: list[list[int]]
) -> None:
    assert grouped(sources(*sizes)) == expected


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_neighbors_are_merged_while_their_indexes_fit(suffix: str) -> None:
    files = MemoryFiles()
    for base in (0, 10, 20):
        files.nodes[f"{base:020}.{suffix}"] = FileNode(bytearray(20))
    assert grouped(sources(1, 1, 1), files) == [[0, 10], [20]]


def test_an_index_must_be_able_to_address_all_merged_offsets() -> None:
    width = MAX_RELATIVE_OFFSET // 2 + 1
    assert grouped(sources(1, 1, 1, width=width)) == [[0, width], [2 * width]]


def test_the_number_of_merged_segments_is_limited() -> None:
    found = grouped(sources(*[0] * (2 * LARGEST_GROUP + 5)))
    assert [len(group) for group in found] == [LARGEST_GROUP, LARGEST_GROUP, 5]


def test_the_indexes_of_a_cleaned_segment_find_the_same_as_a_scan() -> None:
    """A cleaned segment has the same indexes as a segment written by appends."""
    driver = Compacting()
    for turn in range(60):
        driver.put((f"k{turn}", "v" * 30), ("again", f"{turn}"), timestamp=NOW_MS + turn * 7 % 50)
    driver.roll()
    driver.compact()
    log = driver.log
    assert len(log.segments) > 3
    for segment in log.segments[:-1]:
        assert len(segment.offset_index()) > 0
        latest = segment.latest_timestamp()
        found = [
            segment.position_of(offset) for offset in range(segment.base_offset, segment.end_offset)
        ]
        index, times = segment.offset_index().encode(), segment.time_index().encode()
        for suffix in ("index", "timeindex"):
            del driver.files.nodes[f"{DIRECTORY}/{segment.base_offset:020}.{suffix}"]
        segment.rebuild_indexes()
        assert segment.latest_timestamp() == latest
        assert found == [
            segment.position_of(offset) for offset in range(segment.base_offset, segment.end_offset)
        ]
        if driver.config.index_interval_bytes == 4096:
            assert (segment.offset_index().encode(), segment.time_index().encode()) == (
                index, times,
            )  # fmt: skip


def test_the_lags_bound_what_is_cleaned() -> None:
    driver = Compacting()
    for turn in range(4):
        driver.put(("a", f"{turn}"), timestamp=NOW_MS + turn * 1_000)
        driver.roll()
    driver.now_ms = NOW_MS + 4_000

    def found() -> tuple[int, int, bool] | None:
        chosen = cleanable(driver.log, driver.cleaned_to, driver.stable(), driver.now_ms)
        return (
            None
            if chosen is None
            else (chosen.first_dirty_offset, chosen.end_offset, chosen.is_due)
        )

    assert found() == (0, 4, False)
    driver.configure(min_compaction_lag_ms=2_500)
    assert found() == (0, 2, False)
    driver.configure(min_compaction_lag_ms=4_500)
    assert found() is None
    driver.configure(min_compaction_lag_ms=0, max_compaction_lag_ms=3_500)
    assert found() == (0, 4, True)
    driver.cleaned_to = 1
    assert found() == (1, 4, False)
    driver.cleaned_to = 99
    assert found() == (0, 4, True), "a checkpoint beyond the log end is ignored"
    driver.cleaned_to = 4
    assert found() is None


def test_the_ratio_is_the_share_of_bytes_not_cleaned_yet() -> None:
    driver = Compacting(replace(Compacting().config, min_cleanable_dirty_ratio=0.5))
    for turn in range(4):
        driver.put((f"{turn}", "v"))
        driver.roll()
    for cleaned_to, ratio, is_worth_it in ((0, 1.0, True), (2, 0.5, False), (1, 0.75, True)):
        driver.cleaned_to = cleaned_to
        chosen = driver.cleanable()
        assert chosen is not None
        assert (chosen.ratio, chosen.is_worth_it) == (ratio, is_worth_it)


def sizes_in_checkpoint(driver: Compacting) -> dict[int, int]:
    """Return the sizes of the inactive segments in the checkpoint's file."""
    sizes = AbortedTransactions(driver.files, DIRECTORY, lambda base_offset: []).sizes
    sizes.pop(driver.log.segments[-1].base_offset, None)
    return sizes


def sizes_of_segments(driver: Compacting) -> dict[int, int]:
    return {segment.base_offset: segment.size for segment in driver.log.segments[:-1]}


def rolled(turns: int = 4) -> Compacting:
    driver = Compacting()
    for turn in range(turns):
        driver.put(("a", f"{turn}"), (f"only{turn}", "v" * 300))
        driver.roll()
    return driver


def test_after_a_pass_the_checkpoint_has_the_size_of_each_segment() -> None:
    driver = rolled()
    before = sizes_of_segments(driver)
    driver.compact()
    assert sizes_of_segments(driver) != before
    assert sizes_in_checkpoint(driver) == sizes_of_segments(driver)


def test_after_an_abandoned_pass_a_roll_records_the_size_of_each_segment() -> None:
    driver = rolled()

    def fail() -> None:
        assert sizes_in_checkpoint(driver) != sizes_of_segments(driver)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        driver.compact(before_swap=fail)
    driver.replacement.abandon()
    driver.put(("b", "1"))
    driver.roll()
    assert sizes_in_checkpoint(driver) == sizes_of_segments(driver)
