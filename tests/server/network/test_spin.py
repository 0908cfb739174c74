"""With `oncelog.spin.us` the loop polls for a while after a single response, and then sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias, cast

from oncelog_server.network.spin import Spin
from oncelog_server.network.turn import Turn

Callback: TypeAlias = Callable[[], None]

SPIN_US = 50


class StepClock:
    """A clock that shows `step_us` more at each reading."""

    def __init__(self, step_us: int) -> None:
        self.step_us = step_us
        self.us = 0

    def now_ms(self) -> int:
        return self.monotonic_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return self.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        self.us += self.step_us
        return self.us * 1_000

    boottime_ms = monotonic_ms


class CountedLoop:
    """The scheduled callbacks of a loop that a test runs turn by turn."""

    def __init__(self) -> None:
        self._ready: list[Callback] = []

    def call_soon(self, callback: Callback) -> None:
        self._ready.append(callback)

    @property
    def sleeps(self) -> bool:
        return not self._ready

    def turn(self) -> int:
        """Run the callbacks that are scheduled now; return their number."""
        ready, self._ready = self._ready, []
        for callback in ready:
            callback()
        return len(ready)

    def turns_until_it_sleeps(self) -> int:
        turns = 0
        while not self.sleeps:
            self.turn()
            turns += 1
        return turns


def spinning(step_us: int, length_us: int = SPIN_US) -> tuple[CountedLoop, Spin]:
    loop = CountedLoop()
    return loop, Spin(cast(asyncio.AbstractEventLoop, loop), StepClock(step_us), length_us)


def test_the_loop_stays_awake_for_the_time_of_the_setting() -> None:
    loop, spin = spinning(step_us=10)
    spin.begin()
    assert loop.turns_until_it_sleeps() == 5


def test_by_default_the_loop_sleeps_at_once() -> None:
    loop, spin = spinning(step_us=10, length_us=0)
    spin.begin()
    assert loop.sleeps


def test_a_clock_that_stands_still_does_not_keep_the_loop_awake() -> None:
    loop, spin = spinning(step_us=0)
    spin.begin()
    assert loop.turns_until_it_sleeps() == SPIN_US


def test_a_response_within_a_spin_makes_it_longer_and_schedules_no_second_callback() -> None:
    loop, spin = spinning(step_us=10)
    spin.begin()
    for _ in range(3):
        loop.turn()
    spin.begin()
    assert loop.turn() == 1
    assert loop.turns_until_it_sleeps() == 4


def test_a_spin_that_ended_can_begin_again() -> None:
    loop, spin = spinning(step_us=10)
    for _ in range(2):
        spin.begin()
        assert loop.turns_until_it_sleeps() == 5


def turns_after(responses: int) -> int:
    """Send this number of responses in one turn. Return how many turns follow before the loop
    sleeps."""
    loop, spin = spinning(step_us=10)
    turn = Turn(cast(asyncio.AbstractEventLoop, loop), spin)
    for _ in range(responses):
        turn.may_write()
    loop.turn()
    return loop.turns_until_it_sleeps()


def test_only_a_single_response_begins_a_spin() -> None:
    """Several responses in one turn mean that the loop has other work soon."""
    assert (turns_after(1), turns_after(2)) == (5, 0)
