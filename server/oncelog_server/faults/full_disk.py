"""A simulated full disk, for some files.

The disk is full for a path below the data directory if a regular expression matches the path. The
expressions are the lines of a control file, if there is such a file, and `patterns`.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from pathlib import Path

from oncelog_server.storage.files import StorageError


class FullDisk:
    """A full disk. `control` is the path of the control file, "" for none. The file and `patterns`
    may change at any time."""

    def __init__(self, control: str = "") -> None:
        self._control = Path(control) if control else None
        self.patterns: tuple[str, ...] = ()

    def check(self, operation: str, path: str, size: int = 0) -> None:
        """Raise StorageError if the disk is full for `path`."""
        patterns = self.patterns
        if self._control is not None:
            with suppress(FileNotFoundError):
                patterns += tuple(self._control.read_text().split("\n"))
        if any(pattern and re.search(pattern, path) for pattern in patterns):
            raise StorageError(operation, path, os.strerror(errno.ENOSPC), size)
