"""Fail points for tests. `ONCELOG_SPARK_FAIL_DIR` names a folder. Without this variable, fail
points have no effect.

A test puts a file with the name of a fail point into the folder. The content of the file is a
command for the first process at the fail point: an empty file ends the process as if killed, `stop`
pauses the process until a SIGCONT. The process renames the file to `<name>.<process id>`. So no
other process finds the file, and the test knows the process.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

FAIL_DIR: Final = "ONCELOG_SPARK_FAIL_DIR"
EXIT_STATUS: Final = 137
STOP: Final = "stop"


def fail_at(name: str) -> None:
    """Carry out the command for the fail point `name`, if there is a command. If several processes
    reach the fail point at once, only one process finds the file."""
    folder = os.environ.get(FAIL_DIR)
    if folder is None:
        return
    taken = Path(folder, f"{name}.{os.getpid()}")
    try:
        Path(folder, name).rename(taken)
    except FileNotFoundError:
        return
    if taken.read_text() == STOP:
        # If the parent of a paused process ends, the kernel sends the process SIGHUP and SIGCONT,
        # unless it has a session of its own. The first process of a group cannot begin a session.
        with suppress(PermissionError):
            os.setsid()
        # The signal is sent to this thread. Another thread might handle a signal to the process,
        # and this thread would run until then.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    else:
        os._exit(EXIT_STATUS)
