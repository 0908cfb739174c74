"""An application: a process that a test kills and starts again."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.harness.waiting import wait_until

STOP_TIMEOUT_S = 60.0


class Application:
    """A process that runs `command` and writes its output to the file `log`. The context manager
    starts the process, and kills it at the end."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        self.command = command
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.revived = 0

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self.log.parent,
            )

    def kill(self) -> None:
        """Send SIGKILL."""
        process = self._running
        process.kill()
        self._ended(process)

    def pause(self) -> None:
        """Send SIGSTOP: the application hangs until `resume`."""
        self._running.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running.send_signal(signal.SIGCONT)

    def revive(self) -> None:
        """Start the application again if it has ended by itself, as a supervisor would. Count it in
        `revived`."""
        process = self._running
        if process.poll() is not None:
            self._ended(process)
            self.revived += 1
            self.start()

    def stop(self) -> int:
        """Send SIGTERM, and return the exit status. Raises subprocess.TimeoutExpired."""
        process = self._running
        process.terminate()
        process.wait(STOP_TIMEOUT_S)
        return self._ended(process)

    def end_input(self) -> int:
        """Close the application's standard input, wait for the end of the application, and return
        its exit status. Raises subprocess.TimeoutExpired."""
        process = self._running
        assert process.stdin is not None
        process.stdin.close()
        process.wait(STOP_TIMEOUT_S)
        return self._ended(process)

    def _ended(self, process: subprocess.Popen[bytes]) -> int:
        status = process.wait()
        if process.stdin is not None:
            process.stdin.close()
        self._process = None
        return status

    def write_line(self, line: str = "") -> None:
        """Write a line to the application's standard input."""
        stdin = self._running.stdin
        assert stdin is not None
        stdin.write(line.encode() + b"\n")
        stdin.flush()

    def said(self) -> str:
        """Return the output of all starts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def wait_for_line(self, start: str) -> str:
        """Return the last line that begins with `start`, once there is one."""

        def lines() -> list[str]:
            self.check()
            return [line for line in self.said().splitlines() if line.startswith(start)]

        wait_until(lines, f"a line {start!r} in {self.log.name}")
        return lines()[-1]

    def check(self) -> None:
        """Fail if the application has ended by itself."""
        status = self._running.poll()
        assert status is None, f"ended with {status}:\n{self.said()[-4000:]}"

    @property
    def is_running(self) -> bool:
        """Return True until the application is killed or stopped."""
        return self._process is not None

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.kill()
