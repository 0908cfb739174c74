"""What would survive a power loss: which files were synced, up to which size.

`ONCELOG_SYNC_JOURNAL=file`: a line of JSON after every fsync, written before anyone hears of it.
After a kill -9 a test cuts every file back to its line, and so has what a power loss leaves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping


class SyncJournal:
    """Paths are relative to the data directory, sizes in bytes."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def synced(self, sizes: Mapping[str, int]) -> None:
        """These files have at least so many bytes on disk, and their names are there too."""
        os.write(self._descriptor, json.dumps({"synced": dict(sizes)}).encode() + b"\n")

    def moved(self, source: str, target: str) -> None:
        """A file or directory has another name now."""
        os.write(self._descriptor, json.dumps({"moved": [source, target]}).encode() + b"\n")

    def cut(self, path: str, size: int) -> None:
        """A file was made shorter."""
        os.write(self._descriptor, json.dumps({"cut": [path, size]}).encode() + b"\n")
