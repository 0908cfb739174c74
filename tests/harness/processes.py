"""The processes of this machine in Linux's /proc. A process can end between two reads of it: its
files are missing then, and a file that is already open cannot be read any more (ESRCH)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ENDED: Final = (FileNotFoundError, ProcessLookupError)


def children(pid: int) -> list[int]:
    """Return the processes that the first thread of a process has started and not yet waited for,
    none if it has ended. A child can be missing while another one ends (proc(5))."""
    try:
        return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    except ENDED:
        return []


def command(pid: int) -> list[str]:
    """Return the words of a process's command, none if it has ended. A zombie has no words."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    except ENDED:
        return []


def is_alive(pid: int) -> bool:
    """Return True if the process runs. A zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ENDED:
        return False


def thread_names(pid: int) -> list[str]:
    """Return the names of a process's threads, at most 15 characters of each."""
    return [*filter(None, map(_name, Path(f"/proc/{pid}/task").iterdir()))]


def _name(thread: Path) -> str:
    try:
        return (thread / "comm").read_text().strip()
    except ENDED:
        return ""
