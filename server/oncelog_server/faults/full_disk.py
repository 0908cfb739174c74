"""A disk that is full for some files: those whose path below the data directory matches a regular
expression. They are in a file, one a line; while it is not there, there is room for all."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from oncelog_server.storage.files import StorageError


class FullDisk:
    """`control`: the file that says for which paths it is full now."""

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
