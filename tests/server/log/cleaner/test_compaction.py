"""What a pass of the cleaner leaves of a log."""

from __future__ import annotations

from tests.server.log.cleaner.compacting import Compacting
from tests.server.log.driver import NOW_MS


def test_of_every_key_the_latest_record_stays_at_its_offset() -> None:
    driver = Compacting()
    for turn in range(10):
        driver.put(("a", f"a{turn}"), ("b", f"b{turn}"))
        driver.put((f"only{turn}", "x"))
    driver.roll()
    done = driver.compact()
    assert done is not None
    assert done.end_offset == 30
    once = [(turn * 3 + 2, f"only{turn}", "x") for turn in range(10)]
    assert driver.contents() == sorted([*once, (27, "a", "a9"), (28, "b", "b9")])
    assert driver.log.log_end_offset == 30
    assert driver.log.log_start_offset == 0
    assert driver.compact() is None


def test_the_segment_at_the_end_is_not_touched() -> None:
    driver = Compacting()
    driver.put(("a", "1"))
    driver.roll()
    driver.put(("a", "2"))
    driver.put(("a", "3"))
    assert driver.compact() is not None
    assert driver.contents() == [(0, "a", "1"), (1, "a", "2"), (2, "a", "3")]


def test_tombstones_stay_until_their_horizon() -> None:
    driver = Compacting()
    driver.put(("a", "1"), ("b", "1"))
    driver.put(("a", None))
    driver.roll()
    driver.compact()
    assert driver.contents() == [(1, "b", "1"), (2, "a", None)]
    header, records = driver.batches()[1]
    assert header.delete_horizon_ms == NOW_MS + 1_000
    assert records[0].timestamp == NOW_MS
    for later, left in ((999, [(1, "b", "1"), (2, "a", None)]), (1_000, [(1, "b", "1")])):
        driver.now_ms = NOW_MS + later
        driver.put(("c", "1"))
        driver.roll()
        driver.compact()
        assert driver.contents()[: len(left) + 1] == [
            *left,
            (driver.log.log_end_offset - 1, "c", "1"),
        ]
