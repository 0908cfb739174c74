"""If the disk refuses work, usually because it is full, the broker retries the work every second
until it succeeds. The broker logs two events: the refusal and the success."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import structlog

from oncelog_server.refused_work import REFUSALS_OF_A_ROUND, RETRY_MS, RefusedWork
from oncelog_server.storage.files import StorageError
from tests.server.manual_timers import ManualTimers

FULL = StorageError("append", "t-0/1.log", "No space left on device", 500)


class Disk:
    """A disk that is full or has space. `tried` has the name of the work of each attempt, in
    order."""

    def __init__(self, timers: ManualTimers) -> None:
        self.full = True
        self.tried: list[str] = []
        self._timers = timers

    def work(self, name: str) -> Callable[[], None]:
        def again() -> None:
            self.tried.append(name)
            self._timers.now_ms += 1
            if self.full:
                raise FULL

        return again


@pytest.fixture
def timers() -> ManualTimers:
    return ManualTimers()


@pytest.fixture
def disk(timers: ManualTimers) -> Disk:
    return Disk(timers)


@pytest.fixture
def refused(timers: ManualTimers) -> RefusedWork:
    return RefusedWork(timers, lambda: timers.now_ms)


def test_refused_work_is_retried_every_second_and_logged_twice(
    timers: ManualTimers, disk: Disk, refused: RefusedWork
) -> None:
    with structlog.testing.capture_logs() as events:
        refused.add("t-0", FULL, disk.work("t-0"), partition="t-0")
        refused.add("t-0", FULL, disk.work("t-0"), partition="t-0")
        timers.advance(3 * RETRY_MS + 10)
        assert disk.tried == ["t-0"] * 3
        disk.full = False
        timers.advance(RETRY_MS + 10)
        assert "t-0" not in refused
        timers.advance(10 * RETRY_MS)
    assert disk.tried == ["t-0"] * 4
    assert [(event["event"], event["log_level"]) for event in events] == [
        ("disk refused", "error"),
        ("disk takes it again", "info"),
    ]
    assert (events[0]["file"], events[0]["needed_bytes"]) == ("t-0/1.log", 500)
    assert events[1]["after_ms"] >= 3 * RETRY_MS


def test_a_group_of_refused_work_is_logged_once_and_ends_with_its_last_work(
    timers: ManualTimers, disk: Disk, refused: RefusedWork
) -> None:
    with structlog.testing.capture_logs() as events:
        for name in ("a", "b", "c"):
            refused.add(name, FULL, disk.work(name), group="topic", partition=name)
        assert refused.left("topic") == 3
        refused.discard("b")
        disk.full = False
        timers.advance(2 * RETRY_MS)
    assert [event["event"] for event in events] == ["disk refused", "disk takes it again"]
    assert disk.tried == ["a", "c"]
    assert refused.left("topic") == len(refused) == 0


def test_a_round_tries_a_full_disk_a_few_times_and_later_rounds_try_the_rest(
    timers: ManualTimers, disk: Disk, refused: RefusedWork
) -> None:
    count = 3 * REFUSALS_OF_A_ROUND
    for number in range(count):
        refused.add(str(number), FULL, disk.work(str(number)), group="all")
    timers.advance(RETRY_MS + 500)
    assert len(disk.tried) == REFUSALS_OF_A_ROUND
    timers.advance(4 * RETRY_MS)
    assert set(disk.tried) == {str(number) for number in range(count)}
    disk.full = False
    turns: list[int] = []
    while refused:
        before = len(disk.tried)
        if not timers.soon:
            assert timers.run_next(timers.now_ms + 2 * RETRY_MS)
        else:
            timers.soon.pop(0)()
        turns.append(len(disk.tried) - before)
    assert max(turns) <= count


def test_work_that_raises_an_unexpected_exception_is_logged_and_dropped(
    timers: ManualTimers, refused: RefusedWork
) -> None:
    def fail() -> None:
        raise ValueError("a defect")

    with structlog.testing.capture_logs() as events:
        refused.add("t-0", FULL, fail)
        timers.advance(3 * RETRY_MS)
    assert len(refused) == 0
    assert "refused work failed" in [event["event"] for event in events]


def test_complete_does_refused_work_at_once_or_leaves_it_pending(
    timers: ManualTimers, disk: Disk, refused: RefusedWork
) -> None:
    refused.complete("unknown")
    refused.add("t-0", FULL, disk.work("t-0"))
    with pytest.raises(StorageError):
        refused.complete("t-0")
    assert "t-0" in refused
    disk.full = False
    refused.complete("t-0")
    assert ("t-0" in refused, disk.tried) == (False, ["t-0"] * 2)


def test_nothing_is_tried_after_a_stop(
    timers: ManualTimers, disk: Disk, refused: RefusedWork
) -> None:
    refused.add("t-0", FULL, disk.work("t-0"))
    refused.stop()
    refused.add("t-1", FULL, disk.work("t-1"))
    timers.advance(3 * RETRY_MS)
    assert disk.tried == []
