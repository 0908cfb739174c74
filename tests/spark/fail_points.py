"""Fail points of the data source, set by tests, and the processes that reach them."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from oncelog_client.spark.fail_points import FAIL_DIR, STOP
from tests.spark.processes import is_gone, is_stopped

REACHED_TIMEOUT_S: Final = 60.0
# Replaces STOP in the file of a fail point once the test has resumed the paused process.
_WOKEN: Final = "woken"


class NotReached(Exception):
    """No process reached the fail point in time."""


class FailPoints:
    """The fail points of all processes that run with `environment`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.environment = {FAIL_DIR: str(directory)}

    def kill(self, name: str) -> None:
        """Kill the next process that reaches `name`."""
        self._set(name, "")

    def pause(self, name: str) -> None:
        """Pause the next process that reaches `name`: see `wait_for` and `resume`."""
        self._set(name, STOP)

    def reached(self, name: str) -> int | None:
        """Return the id of the process that reached `name`, or None if none has reached it."""
        taken = self._taken(name)
        return None if taken is None else _process(taken)

    def wait_for(self, name: str, timeout_s: float = REACHED_TIMEOUT_S) -> int:
        """Wait until a process that reached `name` is dead or paused, and return its id.
        Raises NotReached at the timeout."""
        deadline = time.monotonic() + timeout_s
        while (taken := self._taken(name)) is None:
            if time.monotonic() > deadline:
                raise NotReached(f"no process reached {name} within {timeout_s:g} s")
            time.sleep(0.01)
        _wait_until_obeyed(taken, deadline)
        return _process(taken)

    def detach(self, name: str) -> int:
        """Wait as `wait_for` does, and forget the process. The fail point can be set again. The
        caller ends or resumes the process."""
        pid = self.wait_for(name)
        taken = self._taken(name)
        assert taken is not None
        taken.unlink()
        return pid

    def resume(self, name: str) -> None:
        """Resume the process that was paused at `name`, if it still exists."""
        taken = self._taken(name)
        if taken is not None:
            # The process may be about to stop itself. If SIGCONT comes before that, the process
            # sleeps forever.
            self.wait_for(name)
            _wake(taken)

    def clear(self) -> None:
        """Unset all fail points, forget reached ones, and resume paused processes."""
        for file in self._files():
            if not _is_taken(file):
                file.unlink(missing_ok=True)
        # From here on no process finds a fail point. A process that has found one may still be
        # reading its file.
        for file in self._files():
            _wait_until_obeyed(file, time.monotonic() + REACHED_TIMEOUT_S)
            _wake(file)
            file.unlink()

    def _set(self, name: str, what: str) -> None:
        """Write a fail point atomically, so that no process reads half of it."""
        written = self.directory / f".{name}"
        written.write_text(what)
        written.rename(self.directory / name)

    def _files(self) -> list[Path]:
        return list(self.directory.iterdir())

    def _taken(self, name: str) -> Path | None:
        """Return the fail point's file if a process has reached it and renamed it, else None."""
        if (self.directory / name).exists():
            return None
        return next(self.directory.glob(f"{name}.*"), None)


def _is_taken(file: Path) -> bool:
    return file.suffix.removeprefix(".").isdigit()


def _process(taken: Path) -> int:
    return int(taken.suffix.removeprefix("."))


def _wait_until_obeyed(taken: Path, deadline: float) -> None:
    """Wait until the process is dead or stopped, perhaps long after it has reached the fail
    point."""
    while not _has_obeyed(taken):
        if time.monotonic() > deadline:
            raise NotReached(f"the process at fail point {taken.name} has neither died nor stopped")
        time.sleep(0.01)


def _has_obeyed(taken: Path) -> bool:
    state, pid = taken.read_text(), _process(taken)
    return state == _WOKEN or is_gone(pid) or (state == STOP and is_stopped(pid))


def _wake(taken: Path) -> None:
    """Resume the process if it was paused."""
    if taken.read_text() == STOP:
        taken.write_text(_WOKEN)
        with suppress(ProcessLookupError):
            os.kill(_process(taken), signal.SIGCONT)
