"""Find the process that listens on a port, for the error message of a failed start. This works on
Linux only, because it reads /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TABLES: Final = ("tcp", "tcp6")
_LISTENING: Final = "0A"


def port_owner(port: int, proc: Path = _PROC) -> str:
    """Return `name (pid 42)` of the process that listens on a TCP port, "" if it is unknown.

    Raises OSError or ValueError if /proc does not have Linux's format."""
    inodes = {f"socket:[{inode}]" for inode in _listening_inodes(port, proc)}
    if not inodes:
        return ""
    for process in proc.iterdir():
        if process.name.isdigit() and _holds(process, inodes):
            return f"{(process / 'comm').read_text().strip()} (pid {process.name})"
    return ""


def _listening_inodes(port: int, proc: Path) -> list[str]:
    """Return the inodes of listening sockets. The rows of /proc/net/tcp are: slot, local
    address:port in hexadecimal, peer, state, further fields, inode."""
    inodes = []
    for table in _TABLES:
        file = proc / "net" / table
        if not file.exists():
            continue
        for row in file.read_text().splitlines()[1:]:
            fields = row.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.append(fields[9])
    return inodes


def _holds(process: Path, inodes: set[str]) -> bool:
    try:
        return any(os.readlink(fd) in inodes for fd in (process / "fd").iterdir())
    except OSError:  # the process has another user, or has ended
        return False
