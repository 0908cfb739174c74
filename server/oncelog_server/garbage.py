"""Garbage collection with short pauses, however many objects are alive."""

from __future__ import annotations

import gc
import time
from typing import Any, Final

FULL: Final = 2
# The first two thresholds are those of Python 3.11. The third threshold starts a full collection
# after 2 collections of the middle generation, about 20,000 new objects. With Python's default
# (10), more objects would accumulate.
THRESHOLDS: Final = (700, 10, 2)
LONG_S: Final = 0.005


def collect_in_short_stops() -> None:
    """Turn garbage collection on, without long pauses for live objects. A full collection examines
    every object, which takes 0.5 s with 10,000 topics; the broker serves no client in this time. So
    objects that are alive now, and those that survive a long collection, are frozen: no later
    collection examines them. A frozen object is still freed with its last reference, but not if it
    is in a cycle of references. So frequent short-lived objects (requests, connections, partitions)
    must not be in cycles.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(_LongCollections().follow)
    gc.enable()


class _LongCollections:
    """Freezes the objects that survive a long collection."""

    def __init__(self) -> None:
        self._began_s = 0.0

    def follow(self, phase: str, info: dict[str, Any]) -> None:
        """Measure a full collection. Python calls this before and after each collection."""
        if info["generation"] < FULL:
            return
        if phase == "start":
            self._began_s = time.thread_time()
        elif time.thread_time() - self._began_s > LONG_S:
            gc.freeze()
