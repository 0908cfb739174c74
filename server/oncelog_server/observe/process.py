"""Memory and processor time of this process, from the operating system."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from oncelog_server.observe.page import ProcessFigures

_STATM = Path("/proc/self/statm")


def process_figures() -> ProcessFigures:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return ProcessFigures(
        resident_bytes=_resident_bytes(usage.ru_maxrss), cpu_seconds=usage.ru_utime + usage.ru_stime
    )


def _resident_bytes(most: int) -> int:
    """Return the resident memory in bytes. Without /proc, return the maximum since the start
    instead. `most` is this maximum, in bytes on macOS and in KiB on other systems."""
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return most if sys.platform == "darwin" else most * 1024
