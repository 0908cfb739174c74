"""The cleaner process: reads one job, writes what comes of it, ends. It changes no file.

`python -m oncelog_server.cleaning.child DATA_DIRECTORY`, started by `processes.py`. It is as nice
as can be: compaction takes what nobody else wants of the processors. When the broker is gone, the
next write to the pipe ends it.
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
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.os_files import OsFiles

NICENESS: Final = 19
# How often the broker hears that work goes on where there is nothing to write, in ns.
_PROGRESS_NS: Final = 100_000_000
_READ: Final = 1 << 16
# After so long a wait, with a tenth of it on a processor, it has given way for long enough.
_PATIENCE_NS: Final = 20_000_000_000
_LEAST_SHARE: Final = 10


def run(root: str, source: int, target: int) -> None:
    """The job comes from descriptor `source`, events and failures go to `target`."""
    job = _receive(source)
    if job is None:
        return
    _step_back(job.limits.gives_way)
    # Threads are started by what is slow, which a reader never asks for.
    files = OsFiles(root, executor=ThreadPoolExecutor(1), call_on_loop=lambda callback: callback())
    told_ns = time.monotonic_ns()
    try:
        for event in clean(job, files):
            if not isinstance(event, Progress):
                _send(target, frame(event))
                continue
            rest_ms = pause_ms(event.size, job.limits.max_bytes_per_second)
            if rest_ms:
                time.sleep(rest_ms / 1000)
            now_ns = time.monotonic_ns()
            if now_ns - told_ns < _PROGRESS_NS:
                continue
            told_ns = now_ns
            if job.limits.gives_way and (starved := _starved()) is not None:
                _send(target, frame(starved))
                return
            _send(target, frame(event))
    except CorruptLog as error:
        _send(target, frame((CorruptLog, (error.path, error.position, error.reason))))
    except StorageError as error:
        _send(target, frame((StorageError, (error.operation, error.path, error.reason))))


def _starved() -> Starved | None:
    """By what Linux counts: ns on a processor, ns ready and waiting for one."""
    try:
        with open("/proc/self/schedstat", encoding="ascii") as file:
            ran_ns, waited_ns, _ = map(int, file.read().split())
    except (OSError, ValueError):
        return None
    if waited_ns < _PATIENCE_NS or ran_ns * _LEAST_SHARE >= waited_ns:
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
    """Linux lets a process that is merely nice finish its turn of some ms, and one that is idle
    give way at once; but where others are always busy, that one has no turn at all."""
    os.nice(NICENESS)
    if gives_way and hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


if __name__ == "__main__":
    # Ctrl-C in the broker's terminal is for the broker, which then lets this end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run(sys.argv[1], sys.stdin.fileno(), sys.stdout.fileno())
    except BrokenPipeError:
        os._exit(1)
