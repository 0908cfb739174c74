"""The lock of a data directory of Apache Kafka. Java locks `.lock` by fcntl, which does not exclude
the flock of oncelog."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class KafkaLock:
    """The lock of one directory, for the time of an import. It is shared, so that it needs no right
    to write. It excludes Kafka, which locks exclusively."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / name
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Take the lock. Return False if a process of Apache Kafka holds it. A directory without a
        lock file cannot be in use, so it is not locked. Raises OSError."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
