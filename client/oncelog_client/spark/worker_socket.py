"""The connection between Spark's JVM and a Python worker, without its delay of 40 ms.

The JVM sends a task in several small pieces. Its kernel holds a piece back until the previous piece
is acknowledged (Nagle's algorithm), and the worker's kernel delays the acknowledgment by 40 ms. A
small task takes less time than this delay. The JVM cannot be changed, but the worker can
acknowledge at once and send its own pieces without delay.

With `spark.python.unix.domain.socket.enabled` there is no such delay, and this module has no
effect.
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
    """Acknowledge at once on every TCP connection of this process, because the worker cannot
    recognize Spark's connection. Return the number of connections, 0 if the system has no such
    option."""
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
        # The file was closed meanwhile.
        return False
    return True
