"""Fail points of the data source as a test sets them, and who came to them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

from oncelog_client.spark.fail_points import FAIL_DIR, STOP

REACHED_TIMEOUT_S: Final = 60.0


class NotReached(Exception):
    """Nobody came to a fail point in time."""


class FailPoints:
    """Those of the processes that have `environment`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.environment = {FAIL_DIR: str(directory)}

    def kill(self, name: str) -> None:
        """The next process that comes to `name` dies."""
        (self.directory / name).write_text("")

    def pause(self, name: str) -> None:
        """The next process that comes to `name` stops there: see `wait_for` and `resume`."""
        (self.directory / name).write_text(STOP)

    def reached(self, name: str) -> int | None:
        """The process that came to `name`, None before that."""
        if (self.directory / name).exists():
            return None
        for taken in self.directory.glob(f"{name}.*"):
            return int(taken.suffix.removeprefix("."))
        return None

    def wait_for(self, name: str, timeout_s: float = REACHED_TIMEOUT_S) -> int:
        """The process that came to `name`. Raises NotReached after so long."""
        deadline = time.monotonic() + timeout_s
        while (pid := self.reached(name)) is None:
            if time.monotonic() > deadline:
                raise NotReached(f"nobody came to {name} within {timeout_s:g} s")
            time.sleep(0.01)
        return pid

    def resume(self, name: str) -> None:
        """Wake the process that was paused at `name`; one that is gone stays so."""
        pid = self.reached(name)
        if pid is not None:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                return

    def clear(self) -> None:
        """No fail point is set, none was reached; nobody stays paused."""
        for file in self.directory.iterdir():
            pid = file.suffix.removeprefix(".")
            if pid.isdigit() and file.read_text() == STOP:
                self.resume(file.stem)
            file.unlink(missing_ok=True)
