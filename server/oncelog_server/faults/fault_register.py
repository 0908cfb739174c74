"""The ids of the faults that a test sets, and a file with the faults that have had an effect."""

from __future__ import annotations

import secrets
from pathlib import Path

from oncelog_server.operating_system.file_modes import make_private


class FaultRegister:
    """Gives each fault its id, and notes which faults are met: a request has met the fault, or the
    broker has reached the fail point.

    An id begins with a random name of the process. So it never means a fault of a later process on
    the same data. The noted ids are in a file, a line each, because a test looks for them also
    after the process was killed.
    """

    def __init__(self) -> None:
        self._process = secrets.token_hex(4)
        self._count = 0
        self._path: Path | None = None

    def new_id(self) -> str:
        """Return an id that no other fault has, neither of this process nor of another."""
        self._count += 1
        return f"{self._process}-{self._count}"

    def keep_in(self, path: Path) -> None:
        """Note met faults in this file, behind those of earlier processes. Raises OSError."""
        make_private(path)
        self._path = path

    def note_met(self, fault_id: str) -> None:
        """Note that a fault is met, if there is a file. The line outlives a SIGKILL. Raises
        OSError."""
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(f"{fault_id}\n".encode())
