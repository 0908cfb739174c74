"""Python workers as processes of the operating system, and how a test makes them orphans."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress


def parent(pid: int) -> int:
    """Return the parent process of `pid`. Raises ProcessLookupError if `pid` has ended."""
    said = _shown(pid, "ppid")
    if not said:
        raise ProcessLookupError(pid)
    return int(said)


def is_jvm(pid: int) -> bool:
    return os.path.basename(_shown(pid, "comm")) == "java"


def is_stopped(pid: int) -> bool:
    """Return True if SIGSTOP has stopped the process."""
    return _shown(pid, "stat").startswith("T")


def is_gone(pid: int) -> bool:
    """Return True if the process has ended, even if its parent has not collected its status yet."""
    return _shown(pid, "stat")[:1] in ("", "Z")


def ancestors(worker: int) -> list[int]:
    """Return the ancestors of a Python worker: the daemon that forked it, if there is one, then its
    JVM."""
    found = [parent(worker)]
    while not is_jvm(found[-1]):
        found.append(parent(found[-1]))
    return found


def orphan(worker: int) -> None:
    """Kill the JVM of a Python worker and the processes in between. The worker survives without
    noticing, like a worker on a host that was cut off from the network."""
    # Kill the daemon first: it would end its workers when its JVM ends.
    for pid in ancestors(worker):
        kill(pid)


def kill(pid: int) -> None:
    """Send SIGKILL, unless the process has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _shown(pid: int, column: str) -> str:
    """Return the output of `ps`; empty for a missing process."""
    return subprocess.run(
        ["ps", "-o", f"{column}=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
