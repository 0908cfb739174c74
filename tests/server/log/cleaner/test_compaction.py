"""The log after a pass of the cleaner."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from oncelog_server.operating_system.os_files import OsFiles
from tests.server.log.cleaner.compacting import Compacting
from tests.server.log.driver import NOW_MS, flush, logs_in, read_all


def test_the_latest_record_of_every_key_stays_at_its_offset() -> None:
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


def test_the_active_segment_is_not_compacted() -> None:
    driver = Compacting()
    driver.put(("a", "1"))
    driver.roll()
    driver.put(("a", "2"))
    driver.put(("a", "3"))
    assert driver.compact() is not None
    assert driver.contents() == [(0, "a", "1"), (1, "a", "2"), (2, "a", "3")]


def test_tombstones_stay_until_their_delete_horizon() -> None:
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


def test_sizes_and_memory_follow_the_new_segments() -> None:
    driver = Compacting()
    for turn in range(100):
        driver.put(("a", f"{turn}"))
    driver.roll()
    read_all(driver.log)
    driver.compact()
    log = driver.log
    assert log.size_bytes == sum(segment.size for segment in log.segments)
    assert log.size_bytes == sum(
        len(driver.files.nodes[path].data) for path in logs_in(driver.files)
    )
    assert [record.offset for record in read_all(log)] == [99]
    outcome: list[object] = []
    flush(log, outcome.append)
    driver.files.settle()
    assert outcome == [None]
    assert log.segments.unsynced == []
    driver.restart()
    assert driver.contents() == [(99, "a", "99")]


def test_a_response_being_sent_from_an_old_segment_keeps_its_bytes(tmp_path: Path) -> None:
    """A slow reader's file range outlives the swap of segments. The range reads the old file even
    if the broker has closed the file's descriptor and a different file has the name."""
    pending: list[Callable[[], None]] = []
    with ThreadPoolExecutor(1) as executor:
        files = OsFiles(str(tmp_path), executor=executor, call_on_loop=pending.append)
        driver = Compacting(files=cast(Any, Settling(files, executor, pending)))
        for turn in range(40):
            driver.put(("a", f"{turn}"))
        driver.roll()
        answer = driver.log.read(0, 300, limit=40)
        assert answer.records is not None
        before = answer.records.read()
        driver.configure(file_delete_delay_ms=60_000)
        driver.compact()
        files.close()
        assert answer.records.read() == before
        files.close()


class Settling:
    """The operating system's files for the test's driver of a log. `settle` waits until the file
    operations in progress have ended."""

    def __init__(
        self, files: OsFiles, executor: ThreadPoolExecutor, pending: list[Callable[[], None]]
    ) -> None:
        self._files = files
        self._executor = executor
        self._pending = pending

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def settle(self) -> None:
        while True:
            self._executor.submit(lambda: None).result()
            if not self._pending:
                return
            while self._pending:
                self._pending.pop(0)()
