"""The connection between Spark's JVM and a Python worker, for tasks that shall not wait for it.

The JVM sends a task in several small pieces, and its kernel holds each of them back until the one
before is acknowledged (Nagle's algorithm), which the worker's kernel puts off for 40 ms, as it
hopes for data to send along. That is more than a small task takes. The JVM's side is not ours, but
this one may acknowledge at once, and need not hold its own pieces back either.

Not needed with `spark.python.unix.domain.socket.enabled`.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Final

_FILES: Final = Path("/proc/self/fd")
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)


def acknowledge_at_once() -> int:
    """For every TCP connection of this process, as Spark does not say which one is its own; how
    many there were. Does nothing where the system has no such option."""
    option = getattr(socket, "TCP_QUICKACK", None)
    if option is None or not _FILES.exists():
        return 0
    return sum(_is_prompt(int(name), option) for name in os.listdir(_FILES))


def _is_prompt(file: int, option: int) -> bool:
    try:
        if not stat.S_ISSOCK(os.fstat(file).st_mode):
            return False
        with socket.socket(fileno=os.dup(file)) as connection:
            if connection.family not in _FAMILIES or connection.type != socket.SOCK_STREAM:
                return False
            connection.setsockopt(socket.IPPROTO_TCP, option, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        # Closed meanwhile.
        return False
    return True
