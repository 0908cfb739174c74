"""Fail points of the data source as a test sets them, and the processes that came to them."""

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
# In the place of STOP once the test has woken the paused process.
_WOKEN: Final = "woken"


class NotReached(Exception):
    """No process came to a fail point in time."""


class FailPoints:
    """Those of the processes that have `environment`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.environment = {FAIL_DIR: str(directory)}

    def kill(self, name: str) -> None:
        """The next process that comes to `name` dies."""
        self._set(name, "")

    def pause(self, name: str) -> None:
        """The next process that comes to `name` stops there: see `wait_for` and `resume`."""
        self._set(name, STOP)

    def reached(self, name: str) -> int | None:
        """The process that came to `name`, None before that."""
        taken = self._taken(name)
        return None if taken is None else _process(taken)

    def wait_for(self, name: str, timeout_s: float = REACHED_TIMEOUT_S) -> int:
        """Return the process that came to `name`, once it is dead or paused as its row says. Raises
        NotReached after so long."""
        deadline = time.monotonic() + timeout_s
        while (taken := self._taken(name)) is None:
            if time.monotonic() > deadline:
                raise NotReached(f"no process came to {name} within {timeout_s:g} s")
            time.sleep(0.01)
        _wait_until_obeyed(taken, deadline)
        return _process(taken)

    def resume(self, name: str) -> None:
        """Wake the process that was paused at `name`; one that is gone stays so."""
        taken = self._taken(name)
        if taken is not None:
            # It may still be about to stop: a process that is woken before that sleeps for ever.
            self.wait_for(name)
            _wake(taken)

    def clear(self) -> None:
        """No fail point is set, none was reached; no process stays paused."""
        for file in self._files():
            if not _is_taken(file):
                file.unlink(missing_ok=True)
        # No process comes to one any more; one that has come reads its row before it is removed.
        for file in self._files():
            _wait_until_obeyed(file, time.monotonic() + REACHED_TIMEOUT_S)
            _wake(file)
            file.unlink()

    def _set(self, name: str, what: str) -> None:
        """Write it at one moment: no process finds it half written."""
        written = self.directory / f".{name}"
        written.write_text(what)
        written.rename(self.directory / name)

    def _files(self) -> list[Path]:
        return list(self.directory.iterdir())

    def _taken(self, name: str) -> Path | None:
        """What the process that came there has made of the file."""
        if (self.directory / name).exists():
            return None
        return next(self.directory.glob(f"{name}.*"), None)


def _is_taken(file: Path) -> bool:
    return file.suffix.removeprefix(".").isdigit()


def _process(taken: Path) -> int:
    return int(taken.suffix.removeprefix("."))


def _wait_until_obeyed(taken: Path, deadline: float) -> None:
    """Between coming to a fail point and dying or stopping there any time may pass."""
    while not _has_obeyed(taken):
        if time.monotonic() > deadline:
            raise NotReached(f"{taken.name} has neither died nor stopped")
        time.sleep(0.01)


def _has_obeyed(taken: Path) -> bool:
    state, pid = taken.read_text(), _process(taken)
    return state == _WOKEN or is_gone(pid) or (state == STOP and is_stopped(pid))


def _wake(taken: Path) -> None:
    """If it was paused."""
    if taken.read_text() == STOP:
        taken.write_text(_WOKEN)
        with suppress(ProcessLookupError):
            os.kill(_process(taken), signal.SIGCONT)
