"""The delay of the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog_server.observe.loop_lag import INTERVAL_S, LoopLag


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


def test_a_stop_ends_the_timer() -> None:
    loop = LateLoop()
    lag = started(loop)
    lag.stop()
    assert loop.call is None
    lag.stop()
