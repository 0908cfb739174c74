"""A test advances the clocks of a broker: timers that are due then run, in the order of their
times, and others keep the rest of their delay."""

from __future__ import annotations

import asyncio
import time

from oncelog_server.clock import SystemClock
from oncelog_server.faults.faults import Faults

HOUR_MS = 3_600_000


def test_all_clocks_advance_together() -> None:
    faults, system = Faults(), SystemClock()
    faults.advance(HOUR_MS)
    for ahead, now in (
        (faults.clock.now_ms(), system.now_ms()),
        (faults.clock.monotonic_ms(), system.monotonic_ms()),
        (faults.clock.monotonic_ns() // 1_000_000, system.monotonic_ms()),
    ):
        assert 0 <= HOUR_MS - (ahead - now) < 60_000


async def test_timers_that_are_due_run_at_once_and_in_order() -> None:
    faults = Faults()
    timers = faults.timers(asyncio.get_running_loop())
    ran: list[str] = []
    over, later = asyncio.Event(), asyncio.Event()
    timers.call_later(2 * HOUR_MS, later.set)
    timers.call_later(HOUR_MS // 2, over.set)
    timers.call_later(HOUR_MS // 2, lambda: ran.append("second"))
    timers.call_later(HOUR_MS // 4, lambda: ran.append("first"))
    timers.call_later(HOUR_MS // 3, lambda: ran.append("cancelled")).cancel()
    faults.advance(HOUR_MS)
    async with asyncio.timeout(10):
        await over.wait()
    assert ran == ["first", "second"]
    assert not later.is_set()
    faults.advance(HOUR_MS)
    async with asyncio.timeout(10):
        await later.wait()


async def test_a_timer_keeps_the_rest_of_its_delay() -> None:
    faults = Faults()
    timers = faults.timers(asyncio.get_running_loop())
    over = asyncio.Event()
    began_s = time.monotonic()
    timers.call_later(HOUR_MS + 50, over.set)
    faults.advance(HOUR_MS)
    async with asyncio.timeout(10):
        await over.wait()
    assert time.monotonic() - began_s >= 0.049


async def test_a_timer_started_after_an_advance_has_its_whole_delay() -> None:
    faults = Faults()
    timers = faults.timers(asyncio.get_running_loop())
    faults.advance(HOUR_MS)
    over = asyncio.Event()
    began_s = time.monotonic()
    timers.call_later(50, over.set)
    async with asyncio.timeout(10):
        await over.wait()
    assert time.monotonic() - began_s >= 0.049
