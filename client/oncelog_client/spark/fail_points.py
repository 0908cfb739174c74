"""Fail points for tests. `ONCELOG_SPARK_FAIL_DIR` names a folder; without it nothing happens.

A test puts a file there with the name of a fail point. The first process that comes to the point
does what the file says: an empty file ends the process as if killed, `stop` pauses it until a
SIGCONT. The process renames the file to `<name>.<process id>`, so that no other process finds it
and the test learns which process did.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Final

FAIL_DIR: Final = "ONCELOG_SPARK_FAIL_DIR"
EXIT_STATUS: Final = 137
STOP: Final = "stop"


def fail_at(name: str) -> None:
    """Come to the fail point `name`. Of several processes at once, one finds the file."""
    folder = os.environ.get(FAIL_DIR)
    if folder is None:
        return
    taken = Path(folder, f"{name}.{os.getpid()}")
    try:
        Path(folder, name).rename(taken)
    except FileNotFoundError:
        return
    if taken.read_text() == STOP:
        # To this thread. A signal to the process may be handled in another thread, and this one
        # would run on until that is scheduled.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    else:
        os._exit(EXIT_STATUS)
