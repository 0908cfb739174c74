"""A disk that is full for the files whose path below the data directory matches a pattern.
A control file has one regular expression a line; without that file there is room for all."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from oncelog_server.storage.files import StorageError


class FullDisk:
    """`control` is the path of the file with the patterns; it may change at any time."""

    def __init__(self, control: str) -> None:
        self._control = Path(control)

    def check(self, operation: str, path: str, size: int = 0) -> None:
        """Raise StorageError where there is no room."""
        try:
            patterns = self._control.read_text().split("\n")
        except FileNotFoundError:
            return
        if any(pattern and re.search(pattern, path) for pattern in patterns):
            raise StorageError(operation, path, os.strerror(errno.ENOSPC), size)
