"""The delay of the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog_server.observe.loop_lag import INTERVAL_S, MOST_SAMPLES, LoopLag


class LateLoop:
    """An event loop with the methods that `LoopLag` calls. It has one timer, and is its handle."""

    def __init__(self) -> None:
        self.now = 10.0
        self.call: Callable[[], None] | None = None

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., None], *arguments: object) -> Any:
        self.call = lambda: callback(*arguments)
        return self

    def cancel(self) -> None:
        self.call = None

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        assert self.call is not None
        self.call()


def started(loop: Any) -> LoopLag:
    lag = LoopLag(loop)
    lag.start()
    return lag


def test_the_delay_of_each_timer_is_measured() -> None:
    loop = LateLoop()
    lag = started(loop)
    loop.pass_time(INTERVAL_S)
    loop.pass_time(INTERVAL_S + 0.05)
    assert lag.latencies.count == 2
    on_time_us, late_us = lag.latencies.quantiles_us((0.5, 1.0))
    assert on_time_us == 0
    assert 49_000 < late_us < 57_000


def test_each_timer_that_a_stall_leaves_out_is_a_sample() -> None:
    """Without them, a loop that stalls for ten percent of the time would show one late timer of
    a hundred."""
    loop = LateLoop()
    lag = started(loop)
    for _ in range(88):
        loop.pass_time(INTERVAL_S)
    loop.pass_time(13 * INTERVAL_S)
    assert lag.latencies.count == 88 + 13
    (late_us,) = lag.latencies.quantiles_us((0.99,))
    assert late_us > 10 * INTERVAL_S * 1_000_000
    assert lag.latencies.total_us == sum(range(13)) * INTERVAL_S * 1_000_000


def test_a_stall_has_a_limited_number_of_samples() -> None:
    loop = LateLoop()
    lag = started(loop)
    loop.pass_time(10_000_000.0)
    assert lag.latencies.count == MOST_SAMPLES
    (late_us,) = lag.latencies.quantiles_us((0.01,))
    assert late_us > 3_600_000_000


def test_a_stop_ends_the_timer() -> None:
    loop = LateLoop()
    lag = started(loop)
    lag.stop()
    assert loop.call is None
    lag.stop()
