"""The path of the control socket, which is in the data directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SOCKET_NAME: Final = ".faults.sock"
_DESCRIPTORS: Final = Path("/proc/self/fd")


@contextmanager
def socket_path(data_directory: Path) -> Iterator[str]:
    """Return a path for bind and connect.

    The path of a Unix socket has at most 107 bytes. Where the system has `/proc`, the returned path
    is short, whatever the path of the data directory is. Raises OSError.
    """
    if not _DESCRIPTORS.is_dir():
        yield str(data_directory / SOCKET_NAME)
        return
    directory = os.open(data_directory, os.O_RDONLY)
    try:
        yield f"{_DESCRIPTORS}/{directory}/{SOCKET_NAME}"
    finally:
        os.close(directory)
