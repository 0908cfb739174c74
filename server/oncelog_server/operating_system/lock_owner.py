"""Finds the process that holds a lock file, for the error message of a start that the lock
prevents. Only Linux shows this process, in /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


def lock_owner(path: Path, proc: Path = _PROC) -> str:
    """Return `name (pid 42)` of the process that holds the flock of a file, "" if the process is
    unknown.

    The process is unknown on another operating system, or if it belongs to another user or
    container.
    """
    try:
        inode = path.stat().st_ino
        rows = [row.split() for row in (proc / "locks").read_text().splitlines()]
        # `1: FLOCK ADVISORY WRITE 42 00:2d:1234 0 EOF`; a waiter's row has `->` in front.
        pids = [row[4] for row in rows if row[1] == "FLOCK" and row[5].endswith(f":{inode}")]
        for pid in pids:
            # On some file systems the device number in /proc/locks differs from that of stat.
            if any(os.readlink(fd) == str(path) for fd in (proc / pid / "fd").iterdir()):
                return f"{(proc / pid / 'comm').read_text().strip()} (pid {pid})"
    except (OSError, LookupError):
        return ""
    return ""
