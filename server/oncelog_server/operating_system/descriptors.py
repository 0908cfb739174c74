"""The process's descriptors: the shares for files and connections, and retries if no descriptor is
free."""

from __future__ import annotations

import errno
import resource
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from oncelog_server.storage.files import StorageError

DESCRIPTOR_LIMIT: Final = 2048
# Descriptors that are neither for files of logs nor for connections: files that a sync pins beyond
# the limit, directories, the metadata store, pipes.
_OTHERS: Final = 256
# Pause before a retry of an operation that found no descriptor.
_RETRY_S: Final = 0.05


class OutOfDescriptors(StorageError):
    """Too many files are open. The error is temporary, and not a fault of the disk."""


def refused(operation: str, path: str, error: OSError, needed_bytes: int = 0) -> StorageError:
    """Return the StorageError for the operating system's error."""
    is_temporary = error.errno in (errno.EMFILE, errno.ENFILE)
    kind = OutOfDescriptors if is_temporary else StorageError
    return kind(operation, path, error.strerror or str(error), needed_bytes)


def affordable_descriptors() -> int:
    """Return the number of log files that may be open at once.

    Log files get at most a quarter of the process's descriptors, because client connections need
    most of the descriptors.
    """
    soft = _allowed()
    return DESCRIPTOR_LIMIT if soft is None else min(DESCRIPTOR_LIMIT, soft // 4)


def affordable_connections() -> int | None:
    """Return the largest number of connections that leaves enough descriptors for files. Return
    None if the process has no limit."""
    soft = _allowed()
    return None if soft is None else soft - affordable_descriptors() - min(_OTHERS, soft // 4)


def _allowed() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


class Shortage:
    """Operations that found no descriptor; they are retried on the event loop after a pause."""

    def __init__(
        self, executor: Executor, call_on_loop: Callable[[Callable[[], None]], object]
    ) -> None:
        self._executor = executor
        self._call_on_loop = call_on_loop
        self._waiting: list[Callable[[], None]] = []

    def retry_later(self, work: Callable[[], None]) -> None:
        self._waiting.append(work)
        if len(self._waiting) == 1:  # otherwise a thread of the executor is already waiting
            self._executor.submit(self._wait)

    def _wait(self) -> None:
        time.sleep(_RETRY_S)
        self._call_on_loop(self._retry)

    def _retry(self) -> None:
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            work()
