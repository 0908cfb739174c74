"""The memory that an object takes, measured in a process of its own."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path


def resident_growth(make: Callable[[], object]) -> int:
    """Return the bytes by which a new process grows when it calls `make` and keeps the result.
    `make` must be a function at the top level of a module, so that the process can import it."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_grown, (make,))


def _grown(make: Callable[[], object]) -> int:
    gc.collect()
    before = _resident()
    held = make()
    gc.collect()
    grown = _resident() - before
    del held
    return grown


def _resident() -> int:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
