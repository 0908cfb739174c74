"""Deletes files and directories in an executor, so that the event loop does not wait."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from threading import Event, Lock

import structlog

from oncelog_server.operating_system.descriptors import refused
from oncelog_server.storage.files import Done, StorageError

log = structlog.get_logger("oncelog.storage")


class Removals:
    """The queue of one disk. One job of the executor at a time deletes the queued files, in order.

    Several jobs would take the threads that syncs need. They would also fill the journal of the
    file system, and appends and renames on the event loop would then wait for the journal.
    """

    def __init__(self, executor: Executor, call_on_loop: Callable[[Callable[[], None]], object]):
        self._executor = executor
        self._call_on_loop = call_on_loop
        self._lock = Lock()
        # For each removal: two paths of each file, and the callback. The first path is for errors,
        # the second is the path in the file system.
        self._queue: deque[tuple[Sequence[tuple[str, str]], Done | None]] = deque()
        self._has_job = False
        self._stopped = Event()

    def add(self, paths: Sequence[tuple[str, str]], done: Done | None) -> None:
        """Queue files and directories, each with its path for errors and its full path. Missing
        files are no error. `done` is called on the event loop, with the first error or None."""
        with self._lock:
            self._queue.append((paths, done))
            has_job, self._has_job = self._has_job, True
        if not has_job:
            self._executor.submit(self._work)

    def stop(self) -> None:
        """Drop the queued removals and later ones. The running one ends after its present file.
        Their callbacks are not called."""
        self._stopped.set()
        with self._lock:
            self._queue.clear()

    def _work(self) -> None:
        while (removal := self._next()) is not None:
            paths, done = removal
            try:
                outcome = self._remove_all(paths)
                if self._stopped.is_set():
                    continue
                if done is not None:
                    self._call_on_loop(partial(done, outcome))
                elif outcome is not None:
                    log.warning("files could not be deleted", reason=str(outcome))
            except Exception:  # a defect in one removal must not stop the others
                log.exception("files could not be deleted", paths=[path for path, _ in paths])

    def _next(self) -> tuple[Sequence[tuple[str, str]], Done | None] | None:
        """Take the first removal of the queue. Return None if the queue is empty; the job then
        ends."""
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            self._has_job = False
            return None

    def _remove_all(self, paths: Sequence[tuple[str, str]]) -> StorageError | None:
        """Remove the paths. Return the first error, or None."""
        outcome: StorageError | None = None
        for path, full_path in paths:
            if self._stopped.is_set():
                break
            try:
                if os.path.isdir(full_path):
                    self._remove_directory(full_path)
                else:
                    os.unlink(full_path)
            except FileNotFoundError:
                continue
            except OSError as error:
                outcome = outcome or refused("remove", path, error)
        return outcome

    def _remove_directory(self, path: str) -> None:
        """Delete a directory with its content. `shutil.rmtree` would load the modules of all
        compressions, which takes 4 ms of a start."""
        with os.scandir(path) as entries:
            for entry in entries:
                if self._stopped.is_set():
                    return
                if entry.is_dir(follow_symlinks=False):
                    self._remove_directory(entry.path)
                else:
                    os.unlink(entry.path)
        if not self._stopped.is_set():
            os.rmdir(path)
