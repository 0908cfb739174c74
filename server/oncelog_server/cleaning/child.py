"""The cleaner process: it reads one job, writes the job's events to a pipe, and ends. It changes no
file.

`processes.py` starts this process as `python -m oncelog_server.cleaning.child DATA_DIRECTORY`. The
process has a low priority (the lowest priority if the job has `gives_way`), so that compaction uses
only processor time that no other process needs. If the broker has ended, the next write to the pipe
ends this process.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from oncelog_server.cleaning.frames import FrameBuffer, frame
from oncelog_server.cleaning.work import Starved, pause_ms
from oncelog_server.log.cleaner.cleaning import clean
from oncelog_server.log.cleaner.job import CleaningJob, Progress
from oncelog_server.log.errors import CorruptLog
from oncelog_server.operating_system.os_files import OsFiles
from oncelog_server.storage.files import StorageError

NICENESS: Final = 19
# The file by which a process of Linux says if it should be ended first or last.
_OOM_SCORE: Final = "/proc/self/oom_score_adj"
_FIRST_TO_END: Final = "1000"
# Minimum time between two Progress events that this process sends, in ns.
_PROGRESS_NS: Final = 100_000_000
_READ: Final = 1 << 16
# A process is starved if it has waited for a processor for at least this time, in ns, and has run
# for less than a tenth of its waiting time.
_STARVED_NS: Final = 20_000_000_000
_MIN_SHARE: Final = 10


def run(root: str, source: int, target: int) -> None:
    """Run the job from descriptor `source`, and write its events and failures to `target`."""
    job = _receive(source)
    if job is None:
        return
    _step_back(job.limits.gives_way)
    # OsFiles uses its thread only for slow operations. This process only reads, so the thread stays
    # idle.
    files = OsFiles(root, executor=ThreadPoolExecutor(1), call_on_loop=lambda callback: callback())
    reported_ns = time.monotonic_ns()
    try:
        for event in clean(job, files):
            if not isinstance(event, Progress):
                _send(target, frame(event))
                continue
            rest_ms = pause_ms(event.size, job.limits.max_bytes_per_second)
            if rest_ms:
                time.sleep(rest_ms / 1000)
            now_ns = time.monotonic_ns()
            if now_ns - reported_ns < _PROGRESS_NS:
                continue
            reported_ns = now_ns
            if job.limits.gives_way and (starved := _starved()) is not None:
                _send(target, frame(starved))
                return
            _send(target, frame(event))
    except CorruptLog as error:
        _send(target, frame((CorruptLog, (error.path, error.position, error.reason))))
    except StorageError as error:
        _send(target, frame((StorageError, (error.operation, error.path, error.reason))))


def _starved() -> Starved | None:
    """Return Starved if this process got too little processor time, otherwise None. Return None on
    systems that do not count the waiting time (all except Linux)."""
    try:
        with open("/proc/self/schedstat", encoding="ascii") as file:
            ran_ns, waited_ns, _ = map(int, file.read().split())
    except (OSError, ValueError):
        return None
    if waited_ns < _STARVED_NS or ran_ns * _MIN_SHARE >= waited_ns:
        return None
    return Starved(ran_ns // 1_000_000, waited_ns // 1_000_000)


def _receive(source: int) -> CleaningJob | None:
    buffer = FrameBuffer()
    while data := os.read(source, _READ):
        buffer.feed(data)
        job = buffer.next()
        if job is not None:
            assert isinstance(job, CleaningJob)
            return job
    return None


def _send(target: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest) :]


def _step_back(gives_way: bool) -> None:
    """Lower the priority of this process, to SCHED_IDLE if `gives_way` is true. Let the kernel end
    this process first if the memory is full, because a batch may be very large when decompressed.

    Linux preempts a SCHED_IDLE process at once, but a nice process only after a time slice of some
    ms. On a busy computer a SCHED_IDLE process may get no time slice at all.
    """
    os.nice(NICENESS)
    with suppress(OSError), open(_OOM_SCORE, "w", encoding="ascii") as file:
        file.write(_FIRST_TO_END)
    if gives_way and hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


if __name__ == "__main__":
    # Ctrl-C in the terminal also reaches this process, but only the broker handles the signal. The
    # broker then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run(sys.argv[1], sys.stdin.fileno(), sys.stdout.fileno())
    except BrokenPipeError:
        os._exit(1)
