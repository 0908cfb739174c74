"""When garbage is collected: never for long at a time, however much is alive."""

from __future__ import annotations

import gc
import time
from typing import Any, Final

FULL: Final = 2
# A full collection looks at what has come since the last one: after as many collections of the
# middle generation at the latest, some 20,000 objects. Those of Python 3.11; others let more come.
THRESHOLDS: Final = (700, 10, 2)
LONG_S: Final = 0.005


def collect_in_short_stops() -> None:
    """Collect garbage from now on, without ever looking for long through what is alive.

    A full collection looks at every object: with 10,000 topics it takes 0.5 s, in which no client
    is served. What is alive now, and what a collection that took long found alive, is not looked at
    again. Such an object still goes with the last reference to it. In a cycle of references it
    would stay, so what comes and goes in numbers (requests, connections, partitions) is in none.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(_LongCollections().follow)
    gc.enable()


class _LongCollections:
    """Freezes what survives them."""

    def __init__(self) -> None:
        self._began_s = 0.0

    def follow(self, phase: str, info: dict[str, Any]) -> None:
        """As Python calls it at each collection, before and after."""
        if info["generation"] < FULL:
            return
        if phase == "start":
            self._began_s = time.thread_time()
        elif time.thread_time() - self._began_s > LONG_S:
            gc.freeze()
