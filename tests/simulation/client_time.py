"""Simulated time and seeded randomness for the client library, in the simulation's thread.

Clients in other threads of the process keep real time and real randomness, so that they do not
disturb the simulation. Spark's tests, for example, leave some clients connected.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import oncelog_client.io.clock
import oncelog_client.io.randomness
from tests.simulation.clock import EPOCH_MS
from tests.simulation.loop import SimLoop

_COMPUTERS = oncelog_client.io.randomness.drawn


class _Time:
    """Replaces the module `time` in the only file of the client that reads it."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()

    def monotonic(self) -> float:
        if threading.get_ident() != self._thread:
            return time.monotonic()
        return self._loop.time()

    def time_ns(self) -> int:
        if threading.get_ident() != self._thread:
            return time.time_ns()
        return EPOCH_MS * 1_000_000 + self._loop.now_us * 1000


class _Chance:
    """Replaces the operating system's randomness in the only file of the client that uses it."""

    def __init__(self, seed: int) -> None:
        self._drawn = random.Random(seed)
        self._thread = threading.get_ident()

    def __getattr__(self, name: str) -> Any:
        mine = threading.get_ident() == self._thread
        return getattr(self._drawn if mine else _COMPUTERS, name)


@contextmanager
def simulated_client_time(loop: SimLoop, seed: int) -> Iterator[None]:
    """Give clients in this thread simulated time, and randomness from `seed`."""
    clock, randomness = vars(oncelog_client.io.clock), vars(oncelog_client.io.randomness)
    clock["time"], randomness["drawn"] = _Time(loop), _Chance(seed)
    try:
        yield
    finally:
        clock["time"], randomness["drawn"] = time, _COMPUTERS
