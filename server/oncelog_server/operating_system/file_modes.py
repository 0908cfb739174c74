"""The modes of the files and directories that oncelog creates. They hold records, credentials and
access rules, so only their owner may read them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

import structlog

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

_log = structlog.get_logger("oncelog.storage")


def make_private(path: Path | str) -> None:
    """Create an empty file that only its owner may read, or remove the rights of others from an
    existing file, as `restrict` does. Raises OSError if it cannot be created."""
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT, FILE_MODE))
    restrict(path)


def restrict(path: Path | str) -> None:
    """Remove the rights of others from a file. If the file belongs to another user, log a warning.
    Raises OSError if there is no such file."""
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if not mode & OF_OTHERS:
        return
    try:
        os.chmod(path, mode & ~OF_OTHERS)
    except OSError as error:
        _log.warning(
            "other users may read a file with credentials: change its owner or its mode",
            file=str(path),
            mode=oct(mode),
            reason=error.strerror,
        )
