"""The client library on simulated time and drawn chance."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import oncelog_client.clock
from tests.simulation.clock import EPOCH_MS
from tests.simulation.loop import SimLoop


class _Time:
    """In place of the module `time` in the one file of the client that reads it."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.time()

    def time_ns(self) -> int:
        return EPOCH_MS * 1_000_000 + self._loop.now_us * 1000


@contextmanager
def simulated_client_time(loop: SimLoop, seed: int) -> Iterator[None]:
    """`random` is seeded as well: the client draws its backoff from the module."""
    state = random.getstate()
    module = vars(oncelog_client.clock)
    before = module["time"]
    module["time"] = _Time(loop)
    random.seed(seed)
    try:
        yield
    finally:
        module["time"] = before
        random.setstate(state)
