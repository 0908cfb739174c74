"""Memory and processor time of this process, and the space of its disk, from the operating
system."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from oncelog_server.observe.page import ProcessFigures
from oncelog_server.operating_system.disk_space import disk_space

_STATM = Path("/proc/self/statm")


def process_figures(data_directory: str) -> ProcessFigures:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    disk = disk_space(data_directory)
    return ProcessFigures(
        resident_bytes=_resident_bytes(usage.ru_maxrss),
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        disk_bytes=disk.total_bytes,
        disk_free_bytes=disk.usable_bytes,
    )


def _resident_bytes(most: int) -> int:
    """Return the resident memory in bytes. Without /proc, return the maximum since the start
    instead. `most` is this maximum, in bytes on macOS and in KiB on other systems."""
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return most if sys.platform == "darwin" else most * 1024
