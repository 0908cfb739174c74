"""`ONCELOG_SPARK_FAIL_DIR`: where a test has put a file with the name of a fail point, the process
that comes to that point takes the file away and dies as if killed. Without the variable: nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FAIL_DIR: Final = "ONCELOG_SPARK_FAIL_DIR"
EXIT_STATUS: Final = 137


def fail_at(name: str) -> None:
    """Come to the fail point `name`. A file kills one process, however many come at once."""
    folder = os.environ.get(FAIL_DIR)
    if folder is None:
        return
    try:
        Path(folder, name).unlink()
    except FileNotFoundError:
        return
    os._exit(EXIT_STATUS)
