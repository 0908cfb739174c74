"""Records are found by their timestamp (ListOffsets)."""

from __future__ import annotations

from msgspec.structs import replace

from oncelog_protocol.records.batch import HEADER_SIZE
from oncelog_server.log.config import LogConfig
from oncelog_server.log.timestamps import STEP_BATCHES, STEP_RECORDS, Search
from oncelog_server.slices import at_its_end
from tests.server.log.driver import MANY, NOW_MS, Driver, delete_records_before

DEFAULT = LogConfig(file_delete_delay_ms=0)


def bases(driver: Driver) -> list[int]:
    return [segment.base_offset for segment in driver.log.segments]


def test_the_latest_timestamp_and_the_first_record_at_a_time_are_found() -> None:
    driver = Driver(replace(DEFAULT, segment_bytes=600, index_interval_bytes=100))
    times = [5, 3, 9, 9, 2, 30, 28, 29, 31, 1, 31, 7]
    for time in times:
        driver.plain(2, timestamp=NOW_MS + time * 10)
    assert len(driver.log.segments) > 2
    stamps = [NOW_MS + time * 10 + n for time in times for n in range(2)]
    for life in (lambda: None, driver.restart, driver.kill):
        life()
        log = driver.log
        assert at_its_end(log.max_timestamp_offset()) == (max(stamps), stamps.index(max(stamps)), 0)
        for wanted in range(NOW_MS, NOW_MS + 330, 3):
            first = next((n for n, stamp in enumerate(stamps) if stamp >= wanted), None)
            found = at_its_end(log.offset_for_timestamp(wanted, MANY))
            assert found == (None if first is None else (stamps[first], first, 0))
        first = stamps.index(NOW_MS + 300)
        for limit in range(len(stamps)):
            found = at_its_end(log.offset_for_timestamp(NOW_MS + 300, limit))
            assert found == (None if first >= limit else (NOW_MS + 300, first, 0))


def test_records_below_the_log_start_are_not_found_by_their_timestamp() -> None:
    driver = Driver(DEFAULT)
    driver.plain(4)
    delete_records_before(driver.log, 2, NOW_MS)
    assert at_its_end(driver.log.offset_for_timestamp(NOW_MS, MANY)) == (NOW_MS + 2, 2, 0)


def test_records_without_a_time_are_never_found() -> None:
    driver = Driver(DEFAULT)
    assert at_its_end(driver.log.max_timestamp_offset()) is None
    driver.plain(1, timestamp=-1)
    assert at_its_end(driver.log.max_timestamp_offset()) is None
    assert at_its_end(driver.log.offset_for_timestamp(0, MANY)) is None


def steps_of(search: Search) -> int:
    """Return the number of steps before the end of a search."""
    return sum(1 for _ in search)


def test_a_search_in_a_large_batch_has_steps_of_few_records() -> None:
    driver = Driver(replace(DEFAULT, segment_bytes=1 << 30, max_message_bytes=1 << 20))
    driver.plain(20 * STEP_RECORDS)
    last = NOW_MS + 20 * STEP_RECORDS - 1
    assert at_its_end(driver.log.offset_for_timestamp(last, MANY)) == (last, last - NOW_MS, 0)
    assert at_its_end(driver.log.max_timestamp_offset()) == (last, last - NOW_MS, 0)
    for search in (
        driver.log.offset_for_timestamp(last, MANY),
        driver.log.max_timestamp_offset(),
    ):
        assert 19 <= steps_of(search) <= 21
    assert steps_of(driver.log.offset_for_timestamp(NOW_MS, MANY)) == 1


def test_a_search_among_older_records_has_steps_of_few_batches() -> None:
    """Records that are written again with their old times are between two entries of the index of
    times."""
    driver = Driver(replace(DEFAULT, segment_bytes=1 << 30, index_interval_bytes=1))
    driver.plain(timestamp=NOW_MS + 50)
    for _ in range(10 * STEP_BATCHES):
        driver.plain()
    driver.plain(timestamp=NOW_MS + 100)
    found = (NOW_MS + 100, 10 * STEP_BATCHES + 1, 0)
    assert at_its_end(driver.log.offset_for_timestamp(NOW_MS + 60, MANY)) == found
    assert 10 <= steps_of(driver.log.offset_for_timestamp(NOW_MS + 60, MANY)) <= 12


def test_a_search_goes_on_although_the_log_grows_and_rolls_between_its_steps() -> None:
    driver = Driver(replace(DEFAULT, segment_bytes=600, index_interval_bytes=100))
    for number in range(30):
        driver.plain(2, timestamp=NOW_MS + 10 * number)
    wanted = NOW_MS + 10 * 29 + 1
    search = driver.log.offset_for_timestamp(wanted, MANY)
    segments = len(driver.log.segments)
    found = None
    try:
        while True:
            next(search)
            driver.plain(2, timestamp=NOW_MS)
    except StopIteration as ended:
        found = ended.value
    assert len(driver.log.segments) > segments
    assert found == (wanted, 59, 0)


def test_a_search_in_a_segment_that_retention_has_removed_keeps_no_indexes_of_it() -> None:
    config = replace(DEFAULT, segment_bytes=600, index_interval_bytes=100)
    driver = Driver(replace(config, file_delete_delay_ms=60_000))
    for number in range(30):
        driver.plain(2, timestamp=NOW_MS + 10 * number)
    first = driver.log.segments.from_offset(0)[0]
    search = driver.log.offset_for_timestamp(NOW_MS + 1, MANY)
    next(search)
    delete_records_before(driver.log, 40, NOW_MS)
    assert driver.log.segments.from_offset(0)[0] is not first
    assert at_its_end(search) == (NOW_MS + 1, 1, 0)
    assert first not in driver.log.segments._indexed.values()


def test_a_batch_that_cannot_be_decoded_counts_as_one_record_of_its_latest_time() -> None:
    """A reader of the batch then gets the error."""
    driver = Driver(DEFAULT)
    driver.plain(4)
    path = driver.log.segments.active.log.path
    driver.files.nodes[path].data[HEADER_SIZE] ^= 0x55  # the length of the first record
    assert at_its_end(driver.log.offset_for_timestamp(NOW_MS + 3, MANY)) == (NOW_MS + 3, 0, 0)
