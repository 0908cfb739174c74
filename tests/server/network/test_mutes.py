"""One timer unmutes all connections, each at its time."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

from oncelog_server.network.mutes import Mutes


class Loop:
    """A loop with a clock that the test advances."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.timers: list[tuple[int, Any]] = []

    def call_later(self, delay: float, callback: Any) -> Any:
        loop, timer = self, (self.now_ms + round(delay * 1000), callback)
        self.timers.append(timer)

        class Handle:
            def cancel(self) -> None:
                loop.timers.remove(timer)

        return Handle()

    def call_soon(self, callback: Any) -> None:
        callback()

    def advance(self, to_ms: int) -> None:
        while self.timers and min(self.timers, key=lambda timer: timer[0])[0] <= to_ms:
            timer = min(self.timers, key=lambda timer: timer[0])
            self.timers.remove(timer)
            self.now_ms = timer[0]
            timer[1]()
        self.now_ms = to_ms


def mutes_of(loop: Loop) -> Mutes:
    return Mutes(cast(asyncio.AbstractEventLoop, loop), lambda: loop.now_ms)


def test_each_connection_is_unmuted_at_its_time_with_one_timer() -> None:
    loop = Loop()
    mutes = mutes_of(loop)
    unmuted: list[int] = []
    for until_ms in (30, 10, 20, 10):
        mutes.add(until_ms, partial(unmuted.append, until_ms))
        assert len(loop.timers) == 1
    loop.advance(9)
    assert unmuted == []
    loop.advance(20)
    assert unmuted == [10, 10, 20]
    assert len(loop.timers) == 1
    loop.advance(30)
    assert unmuted == [10, 10, 20, 30]
    assert loop.timers == []


def test_closed_connections_leave_nothing_behind() -> None:
    loop = Loop()
    mutes = mutes_of(loop)
    for _ in range(10_000):
        mutes.discard(mutes.add(1 << 40, lambda: None))
    assert len(mutes) == 0
    assert len(mutes._heap) <= 65
    mutes.close()
    assert loop.timers == []
