"""The total and usable space of the disk under the data directory (KIP-827)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import msgspec

UNKNOWN: Final = -1


class DiskSpace(msgspec.Struct, frozen=True):
    """The space of a disk. `path` is absolute; a number of bytes is -1 if it is unknown."""

    path: str
    total_bytes: int
    usable_bytes: int


def disk_space(directory: str) -> DiskSpace:
    path = str(Path(directory).absolute())
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return DiskSpace(path, UNKNOWN, UNKNOWN)
    return DiskSpace(path, usage.total, usage.free)
