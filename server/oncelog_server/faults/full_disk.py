"""A simulated full disk, for some files.

Each line of a control file is a regular expression for paths below the data directory. Without the
control file, the disk has room for all files.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from oncelog_server.storage.files import StorageError


class FullDisk:
    """A full disk. `control` is the path of the file with patterns; it may change at any time."""

    def __init__(self, control: str) -> None:
        self._control = Path(control)

    def check(self, operation: str, path: str, size: int = 0) -> None:
        """Raise StorageError if the disk is full for `path`."""
        try:
            patterns = self._control.read_text().split("\n")
        except FileNotFoundError:
            return
        if any(pattern and re.search(pattern, path) for pattern in patterns):
            raise StorageError(operation, path, os.strerror(errno.ENOSPC), size)
