"""`ONCELOG_SPARK_FAIL_DIR`: where a test has put a file with the name of a fail point, the process
that comes to that point first does what is written in it. Without the variable: nothing.

An empty file ends the process as if killed; `stop` pauses it until somebody sends SIGCONT. The file
is renamed to `<name>.<process id>`: nobody else comes upon it, and the test learns who did.
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
    """Come to the fail point `name`. A file meets one process, however many come at once."""
    folder = os.environ.get(FAIL_DIR)
    if folder is None:
        return
    taken = Path(folder, f"{name}.{os.getpid()}")
    try:
        Path(folder, name).rename(taken)
    except FileNotFoundError:
        return
    if taken.read_text() == STOP:
        # To this thread: sent to the process it might be taken by another one, and this one would
        # run on until that is scheduled.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    else:
        os._exit(EXIT_STATUS)
