"""Garbage collection in short stops, however many objects are alive."""

from __future__ import annotations

import gc
import time
from typing import Any, Final

FULL: Final = 2
# A full collection looks at the objects made since the last one. It begins after at most this many
# collections of the middle generation, some 20,000 objects: the thresholds of Python 3.11; other
# versions let more accumulate.
THRESHOLDS: Final = (700, 10, 2)
LONG_S: Final = 0.005


def collect_in_short_stops() -> None:
    """Turn garbage collection on, without long walks over live objects.

    A full collection looks at every object: with 10,000 topics it takes 0.5 s, in which no client
    is served. Objects that are alive now, and those that a long collection found alive, are frozen:
    they are not looked at again. A frozen object is still freed with the last reference to it, but
    not if it is in a cycle of references; so objects that come and go in numbers (requests,
    connections, partitions) must not be in cycles."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(_LongCollections().follow)
    gc.enable()


class _LongCollections:
    """Freezes the objects that survive a long collection."""

    def __init__(self) -> None:
        self._began_s = 0.0

    def follow(self, phase: str, info: dict[str, Any]) -> None:
        """Called by Python before and after each collection."""
        if info["generation"] < FULL:
            return
        if phase == "start":
            self._began_s = time.thread_time()
        elif time.thread_time() - self._began_s > LONG_S:
            gc.freeze()
