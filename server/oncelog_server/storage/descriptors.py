"""How the descriptors that a process may have are shared out, and what waits for one."""

from __future__ import annotations

import errno
import resource
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from oncelog_server.storage.files import StorageError

DESCRIPTOR_LIMIT: Final = 2048
# For what is neither a file of a log nor a connection: files pinned beyond the limit by a sync,
# directories, the metadata store, pipes.
_OTHERS: Final = 256
# Pause before a retry of an operation that found no descriptor.
_RETRY_S: Final = 0.05


class OutOfDescriptors(StorageError):
    """Too many files are open: a temporary error that is no fault of the disk."""


def refused(operation: str, path: str, error: OSError, needed_bytes: int = 0) -> StorageError:
    passes = error.errno in (errno.EMFILE, errno.ENFILE)
    kind = OutOfDescriptors if passes else StorageError
    return kind(operation, path, error.strerror or str(error), needed_bytes)


def affordable_descriptors() -> int:
    """How many files may be open at once: at most a quarter of what the process may open, as
    clients need most of it."""
    soft = _allowed()
    return DESCRIPTOR_LIMIT if soft is None else min(DESCRIPTOR_LIMIT, soft // 4)


def affordable_connections() -> int | None:
    """How many clients leave enough descriptors to the files; None: any number."""
    soft = _allowed()
    return None if soft is None else soft - affordable_descriptors() - min(_OTHERS, soft // 4)


def _allowed() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


class Shortage:
    """Operations that found no descriptor and are retried: by the caller, on its event loop."""

    def __init__(
        self, executor: Executor, call_on_loop: Callable[[Callable[[], None]], object]
    ) -> None:
        self._executor = executor
        self._call_on_loop = call_on_loop
        self._waiting: list[Callable[[], None]] = []

    def try_later(self, work: Callable[[], None]) -> None:
        self._waiting.append(work)
        if len(self._waiting) == 1:  # else a thread waits already: one is enough
            self._executor.submit(self._wait)

    def _wait(self) -> None:
        time.sleep(_RETRY_S)
        self._call_on_loop(self._try_again)

    def _try_again(self) -> None:
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            work()
