"""How full the disk under the data directory is (KIP-827)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import msgspec

UNKNOWN: Final = -1


class DiskSpace(msgspec.Struct, frozen=True):
    """`path` is absolute; bytes are -1 where the system does not tell."""

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
