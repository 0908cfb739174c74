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
from typing import Final

from oncelog_server.cleaning.frames import FrameBuffer, frame
from oncelog_server.cleaning.work import pause_ms
from oncelog_server.log.cleaner.cleaning import clean
from oncelog_server.log.cleaner.job import CleaningJob, Progress
from oncelog_server.log.errors import CorruptLog
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.os_files import OsFiles

NICENESS: Final = 19
# How often the broker hears that work goes on where there is nothing to write, in ns.
_PROGRESS_NS: Final = 100_000_000
_READ: Final = 1 << 16


def run(root: str, source: int, target: int) -> None:
    """The job comes from descriptor `source`, events and failures go to `target`."""
    job = _receive(source)
    if job is None:
        return
    # Threads are started by what is slow, which a reader never asks for.
    files = OsFiles(root, executor=ThreadPoolExecutor(1), call_on_loop=lambda callback: callback())
    told_ns = time.monotonic_ns()
    try:
        for event in clean(job, files):
            if isinstance(event, Progress):
                rest_ms = pause_ms(event.size, job.limits.max_bytes_per_second)
                if rest_ms:
                    time.sleep(rest_ms / 1000)
                if time.monotonic_ns() - told_ns < _PROGRESS_NS:
                    continue
                told_ns = time.monotonic_ns()
            _send(target, frame(event))
    except CorruptLog as error:
        _send(target, frame((CorruptLog, (error.path, error.position, error.reason))))
    except StorageError as error:
        _send(target, frame((StorageError, (error.operation, error.path, error.reason))))


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


if __name__ == "__main__":
    # Ctrl-C in the broker's terminal is for the broker, which then lets this end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    try:
        run(sys.argv[1], sys.stdin.fileno(), sys.stdout.fileno())
    except BrokenPipeError:
        os._exit(1)
