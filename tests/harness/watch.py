"""The duration of an operation without the time in the queue for a processor. On a busy computer,
the time in the queue shows nothing about the product."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from tests.harness.broker import Process
from tests.harness.processes import ENDED


class Watch:
    """The time since the creation of this object, without the queue times of this thread and of
    process `pid`. This thread must work or block until the process has done its work. Do not use it
    for a thread that polls, because the process works during that thread's queue time."""

    def __init__(self, pid: int | None = None) -> None:
        self._pid = pid
        self._began_s = self._now_s()

    @property
    def passed_s(self) -> float:
        """Return the time so far in s. For an ended process, call this before waiting for it."""
        return self._now_s() - self._began_s

    def _now_s(self) -> float:
        of_process = queued_s(str(self._pid)) if self._pid is not None else 0.0
        return time.monotonic() - queued_s("thread-self") - of_process


def queued_s(thread: str) -> float:
    """Return how long a thread, or the main thread of a process, has waited for a processor. Return
    0 for an ended thread, and on a system without this count."""
    with suppress(*ENDED):
        return int(Path(f"/proc/{thread}/schedstat").read_text().split()[1]) / 1e9
    return 0.0


def seconds_to_end(process: Process, number: int) -> float:
    """Send a signal to a child. Return the time until its end in s. The caller waits for its exit
    code."""
    assert isinstance(process, subprocess.Popen)
    watch = Watch(process.pid)
    process.send_signal(number)
    # Block here: a loop that polls would be in the queue most of the time.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    return watch.passed_s
