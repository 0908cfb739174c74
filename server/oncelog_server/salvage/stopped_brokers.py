"""The check that no broker runs on a data directory."""

from __future__ import annotations

from pathlib import Path

from oncelog_server.data_directory.lock import DirectoryInUse
from oncelog_server.offline.read_only_files import is_in_use
from oncelog_server.operating_system.lock_owner import lock_owner
from oncelog_server.storage.layout import LOCK


def check_stopped(path: Path) -> None:
    """Raise DirectoryInUse if a broker holds the lock of a data directory. The directory does not
    change."""
    if is_in_use(str(path)):
        process = lock_owner((path / LOCK).resolve()) or "a broker"
        raise DirectoryInUse(f"{process} uses {path}: stop it first")
