"""How long something takes, without the time in the queue for a processor: on a busy machine that
time says nothing about the product."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path


class Watch:
    """Time since it was made, in which this thread works, or is blocked until the process `pid` has
    done something. Not for a thread that polls: its time in the queue is not lost."""

    def __init__(self, pid: int | None = None) -> None:
        self._pid = pid
        self._began_s = self._now_s()

    @property
    def passed_s(self) -> float:
        """Of a process that has ended, it can be read until the process is waited for."""
        return self._now_s() - self._began_s

    def _now_s(self) -> float:
        of_process = queued_s(str(self._pid)) if self._pid is not None else 0.0
        return time.monotonic() - queued_s("thread-self") - of_process


def queued_s(thread: str) -> float:
    """Return how long a thread, or the main thread of a process, has waited for a processor: 0 on a
    system that does not count it."""
    with suppress(FileNotFoundError):
        return int(Path(f"/proc/{thread}/schedstat").read_text().split()[1]) / 1e9
    return 0.0


def seconds_to_end(process: subprocess.Popen[bytes], number: int) -> float:
    """Send a signal to a child, and return how long it takes to end. The caller waits for its exit
    code."""
    watch = Watch(process.pid)
    process.send_signal(number)
    # Blocks: a loop that looks now and then would be in the queue most of the time.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    return watch.passed_s
