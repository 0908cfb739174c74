"""Python workers as the operating system sees them: whose children they are, and how they become
orphans."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress


def parent(pid: int) -> int:
    """The process that started `pid`. Raises ProcessLookupError when that is gone."""
    said = _shown(pid, "ppid")
    if not said:
        raise ProcessLookupError(pid)
    return int(said)


def is_jvm(pid: int) -> bool:
    return os.path.basename(_shown(pid, "comm")) == "java"


def is_stopped(pid: int) -> bool:
    """By SIGSTOP, until SIGCONT."""
    return _shown(pid, "stat").startswith("T")


def is_gone(pid: int) -> bool:
    """Or dead, without a parent that has asked yet how it ended."""
    return _shown(pid, "stat")[:1] in ("", "Z")


def ancestors(worker: int) -> list[int]:
    """Of a Python worker: the daemon it was forked from, if there is one, then its JVM."""
    found = [parent(worker)]
    while not is_jvm(found[-1]):
        found.append(parent(found[-1]))
    return found


def orphan(worker: int) -> None:
    """Kill the JVM of a Python worker, and what stands between them, but not the worker: it has
    missed all of it, as a host does that was cut off."""
    # The daemon first: when its JVM ends it would end its workers.
    for pid in ancestors(worker):
        kill(pid)


def kill(pid: int) -> None:
    """SIGKILL; what is gone already stays so."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _shown(pid: int, column: str) -> str:
    """By `ps`; empty for a process that is not there."""
    return subprocess.run(
        ["ps", "-o", f"{column}=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
