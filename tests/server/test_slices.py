"""Long work holds the event loop for one slice at a time. The tests inject the clock."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from oncelog_server.deferred import Deferred
from oncelog_server.slices import (
    AT_ONCE_MS,
    IN_ROTATION,
    SLICE_MS,
    ColdSteps,
    Slices,
    Steps,
    at_its_end,
)
from tests.server.manual_timers import ManualTimers

ENDLESS = 10**9


class Loop:
    """A loop with a clock that advances by the time of its work."""

    def __init__(self, steps_per_slice: int = ENDLESS) -> None:
        self.timers = ManualTimers()
        self.slices = Slices(
            self.timers, lambda: self.timers.now_ms, steps_per_slice=steps_per_slice
        )
        # How long each turn held the loop, in ms.
        self.turns: list[int] = []

    def work(
        self, steps: int, *, step_ms: int = 1, seen: list[str] | None = None, name: str = ""
    ) -> Steps[str]:
        for _ in range(steps):
            self.timers.now_ms += step_ms
            if seen is not None:
                seen.append(name)
            yield
        return name

    def turn(self) -> None:
        soon, self.timers.soon = self.timers.soon, []
        began_ms = self.timers.now_ms
        for callback in soon:
            callback()
        self.turns.append(self.timers.now_ms - began_ms)

    def run_all(self) -> None:
        while self.timers.soon:
            self.turn()


def test_short_work_is_done_at_once() -> None:
    loop = Loop()
    assert loop.slices.run(loop.work(AT_ONCE_MS - 1, name="short")) == "short"
    assert not loop.timers.soon


def test_a_slice_ends_at_its_time_limit_however_much_work_is_queued() -> None:
    loop = Loop()
    answers = [loop.slices.queue(loop.work(100, name=str(number))) for number in range(40)]
    loop.run_all()
    assert [answer.value for answer in answers] == [str(number) for number in range(40)]
    assert max(loop.turns) <= SLICE_MS
    assert sum(loop.turns) == 4_000


def test_a_slice_ends_after_a_long_step() -> None:
    loop = Loop()
    loop.slices.queue(loop.work(3, step_ms=50))
    loop.run_all()
    assert loop.turns == [50, 50, 50, 0]


def test_short_work_runs_in_the_same_slice_as_long_work() -> None:
    loop = Loop()
    seen: list[str] = []
    loop.slices.queue(loop.work(ENDLESS, seen=seen, name="long"))
    short = loop.slices.queue(loop.work(2, seen=seen, name="short"))
    loop.turn()
    assert short.done
    assert set(seen) == {"long", "short"}


def test_work_queued_behind_other_work_does_not_run_at_once() -> None:
    loop = Loop()
    loop.slices.queue(loop.work(ENDLESS))
    answer = loop.slices.run(loop.work(1, name="second"))
    assert isinstance(answer, Deferred)
    assert not answer.done


def test_only_some_work_is_in_rotation_and_all_work_ends() -> None:
    loop = Loop()
    begun: list[str] = []
    for number in range(IN_ROTATION * 2):
        loop.slices.queue(loop.work(50, seen=begun, name=str(number)))
    for _ in range(40):
        loop.turn()
    assert len(set(begun)) == IN_ROTATION
    loop.run_all()
    assert len(set(begun)) == IN_ROTATION * 2


def test_with_a_frozen_clock_a_slice_ends_after_a_number_of_steps() -> None:
    loop = Loop(steps_per_slice=3)
    seen: list[str] = []
    loop.slices.queue(loop.work(10, step_ms=0, seen=seen))
    loop.turn()
    assert len(seen) == 3


def test_abandoned_work_ends() -> None:
    loop = Loop()
    closed: list[str] = []

    def work() -> Generator[None, None, None]:
        try:
            while True:
                loop.timers.now_ms += 1
                yield
        finally:
            closed.append("closed")

    answer = loop.slices.queue(work())
    loop.turn()
    answer.cancel()
    loop.run_all()
    assert closed == ["closed"]
    assert loop.slices.is_idle


def test_a_failure_abandons_its_response_and_hinders_no_other_work() -> None:
    loop = Loop()

    def failing() -> Generator[None, None, None]:
        yield
        raise ValueError("a defect")

    first = loop.slices.queue(failing())
    second = loop.slices.queue(loop.work(5, name="second"))
    failures: list[Exception | None] = []
    first.on_abandon(lambda: failures.append(first.failure))
    loop.run_all()
    assert second.value == "second"
    assert [str(failure) for failure in failures] == ["a defect"]


def test_a_failure_at_once_is_raised() -> None:
    def failing() -> Generator[None, None, None]:
        raise ValueError("a defect")
        yield

    with pytest.raises(ValueError, match="a defect"):
        Loop().slices.run(failing())


def test_after_the_stop_no_work_continues() -> None:
    loop = Loop()
    seen: list[str] = []
    loop.slices.queue(loop.work(ENDLESS, seen=seen))
    loop.turn()
    before = len(seen)
    loop.slices.stop()
    loop.run_all()
    assert not loop.slices.queue(loop.work(5, seen=seen)).done
    loop.run_all()
    assert len(seen) == before


class Bytes:
    """Bytes on a disk, which arrive when the test says so."""

    def __init__(self) -> None:
        self.done: list[Callable[[], None]] = []

    def prefetch(self, done: Callable[[], None]) -> None:
        self.done.append(done)

    def arrive(self) -> None:
        self.done.pop(0)()


def reading(cold: Bytes, seen: list[str], times: int = 1) -> ColdSteps[str]:
    for _ in range(times):
        seen.append("before")
        yield cold
        seen.append("after")
    return "read"


@pytest.mark.parametrize("is_queued", [False, True])
def test_work_continues_when_its_bytes_have_arrived(is_queued: bool) -> None:
    loop, cold, seen = Loop(), Bytes(), list[str]()
    slices = loop.slices
    work = (slices.queue if is_queued else slices.run)(reading(cold, seen, times=2))
    assert isinstance(work, Deferred)
    for rounds in (1, 2):
        loop.run_all()
        assert seen == ["before", "after"] * (rounds - 1) + ["before"]
        assert not work.done
        cold.arrive()
    assert len(seen) == 3, "it continues in a slice, not in the callback"
    loop.run_all()
    assert work.value == "read"


def test_other_work_runs_while_work_waits_for_the_disk() -> None:
    loop, cold = Loop(), Bytes()
    waiting = loop.slices.run(reading(cold, []))
    assert loop.slices.is_idle
    assert loop.slices.run(loop.work(1, name="short")) == "short"
    others = [loop.slices.queue(loop.work(5)) for _ in range(2 * IN_ROTATION)]
    cold.arrive()
    loop.run_all()
    assert isinstance(waiting, Deferred)
    assert waiting.done
    assert all(other.done for other in others)


def test_bytes_that_arrive_after_the_end_of_their_work_change_nothing() -> None:
    loop, cold, seen = Loop(), Bytes(), list[str]()
    cancelled = loop.slices.run(reading(cold, seen))
    assert isinstance(cancelled, Deferred)
    cancelled.cancel()
    cold.arrive()
    loop.run_all()
    stopped = loop.slices.run(reading(cold, seen))
    assert isinstance(stopped, Deferred)
    loop.slices.stop()
    cold.arrive()
    loop.run_all()
    assert seen == ["before", "before"]
    assert not stopped.done


def test_work_that_is_done_at_once_prefetches_nothing() -> None:
    cold, seen = Bytes(), list[str]()
    assert at_its_end(reading(cold, seen, times=2)) == "read"
    assert seen == ["before", "after"] * 2
    assert not cold.done

    def failing() -> Steps[None]:
        yield
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        at_its_end(failing())


class NoBytes:
    def prefetch(self, done: Callable[[], None]) -> None:
        raise LookupError("no thread")


@pytest.mark.parametrize("is_queued", [False, True])
def test_a_prefetch_that_fails_ends_its_work(is_queued: bool) -> None:
    loop = Loop()

    def steps() -> ColdSteps[None]:
        yield NoBytes()

    if is_queued:
        work = loop.slices.queue(steps())
        failures: list[Exception | None] = []
        work.on_abandon(lambda: failures.append(work.failure))
        loop.run_all()
        assert [str(failure) for failure in failures] == ["no thread"]
    else:
        with pytest.raises(LookupError, match="no thread"):
            loop.slices.run(steps())
    assert not loop.slices._cold
