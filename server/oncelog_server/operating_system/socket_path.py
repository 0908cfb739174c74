"""The path of a Unix socket in a directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_DESCRIPTORS: Final = Path("/proc/self/fd")


@contextmanager
def socket_path(directory: Path, name: str) -> Iterator[str]:
    """Return a path of the socket `name` for bind and connect.

    The path of a Unix socket has at most 107 bytes. Where the system has `/proc`, the returned path
    is short, whatever the path of the directory is. Raises OSError.
    """
    if not _DESCRIPTORS.is_dir():
        yield str(directory / name)
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        yield f"{_DESCRIPTORS}/{descriptor}/{name}"
    finally:
        os.close(descriptor)
