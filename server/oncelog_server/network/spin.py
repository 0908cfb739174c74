"""Poll for a while before the loop sleeps (`oncelog.spin.us`).

A processor that sleeps takes tens of microseconds to wake up. A client that sends one request at a
time pays for that with each request.
"""

from __future__ import annotations

import asyncio

from oncelog_server.clock import Clock


class Spin:
    """Keeps the event loop awake for `length_us` after each call of `begin`. If `length_us` is 0,
    `begin` does nothing.

    While a callback is scheduled, the loop polls its sockets and does not sleep. A turn of the loop
    takes more than a microsecond, so `length_us` also bounds the number of turns. This second
    bound ends a spin if the clock stands still, as in the simulator.
    """

    __slots__ = ("_clock", "_is_spinning", "_length_us", "_loop", "_turns_left", "_until_ns")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, length_us: int) -> None:
        self._loop = loop
        self._clock = clock
        self._length_us = length_us
        self._until_ns = 0
        self._turns_left = 0
        self._is_spinning = False

    def begin(self) -> None:
        """Spin for `length_us` from now on, even if a spin has already begun."""
        if not self._length_us:
            return
        self._until_ns = self._clock.monotonic_ns() + self._length_us * 1_000
        self._turns_left = self._length_us
        if not self._is_spinning:
            self._is_spinning = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turns_left -= 1
        if self._turns_left > 0 and self._clock.monotonic_ns() < self._until_ns:
            self._loop.call_soon(self._turn)
        else:
            self._is_spinning = False
