"""A replay of the log gives the producer state of the live log, from any snapshot on (I15)."""

from __future__ import annotations

from oncelog_server.log.producers import Producers
from oncelog_server.log.replay import aborted_rows, decided_from, replay
from tests.server.log.driver import busy, check_invariants, producers_of


def test_every_snapshot_and_the_log_after_it_give_the_live_state() -> None:
    driver = busy()
    log = driver.log
    expected = producers_of(log.producers)
    offsets = [0, *log.snapshots.offsets]
    assert len(offsets) > 2
    for offset in offsets:
        producers = Producers()
        found = log.snapshots.newest(offset, offset, driver.now_ms)
        if found is not None:
            producers.load(found[1])
        for segment in log.segments:
            if segment.end_offset > offset:
                replay(producers, segment, offset, driver.now_ms)
        assert producers.first_unstable_offset(0) is not None
        assert producers_of(producers) == expected


def test_the_transactions_with_a_marker_above_an_offset_are_found_without_the_last_snapshot() -> (
    None
):
    """A high watermark may be below the markers of a log that was closed with a snapshot."""
    driver = busy()
    log = driver.log
    decided = dict(log.producers.decided)
    markers = sorted(decided.values())
    assert len(markers) > 2
    log.snapshots.take(log.log_end_offset, log.producers)
    for offset in (0, *markers, markers[-1] + 1):
        found = decided_from(log.segments, log.snapshots, offset, driver.now_ms)
        assert found == {first: last for first, last in decided.items() if last >= offset}


def test_the_txnindex_rows_of_a_segment_are_computed_from_the_log_alone() -> None:
    driver = busy()
    log = driver.log
    written = {
        segment.base_offset: log.segments.aborted.rows(segment.base_offset)
        for segment in log.segments
    }
    assert sum(map(len, written.values())) > 2
    for base_offset, rows in written.items():
        assert aborted_rows(log.segments, log.snapshots, base_offset) == rows
    log.snapshots.keep(())
    for base_offset, rows in written.items():
        assert aborted_rows(log.segments, log.snapshots, base_offset) == rows
    check_invariants(log, driver.files)
