"""The real oncelog process under test. A test can start it, kill it, and start it again on the same
data."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, TypeAlias

from tests.harness.ports import reserve_port
from tests.harness.preloaded import PROGRAM, PreloadedProcess, can_be_forked, start_preloaded

Process: TypeAlias = subprocess.Popen[bytes] | PreloadedProcess

START_TIMEOUT_S = 60.0
# A stop that waits for a processor, or decides many transactions first, takes long under load.
STOP_TIMEOUT_S = 120.0

_START_LINE = re.compile(
    r"^oncelog (?P<version>\S+) listening on (?P<host>\S+):(?P<port>\d+)"
    r"(?: \((?:every address, without authentication)?(?:(?:; )?advertised as \S+)?\))?"
    r", data in (?P<data>.+)$",
    re.MULTILINE,
)


class BrokerFailed(Exception):
    """The process failed to start or to stop (the message has its output), or is not running."""


class Oncelog:
    """A broker process. `start()` or the context manager starts it. Clients connect to `address`.

    The first start picks the port, and every later start keeps it. No other process gets the port
    while the broker is down. `preloaded`: if possible, fork the process from one that has imported
    the sources (`preloaded.py`).
    """

    # The default of `preloaded`. `tests/conftest.py` sets it to True, because a forked start saves
    # 0.3 s of processor time. Programs that measure a broker leave it False, so that their brokers
    # start as users start them.
    preloads: ClassVar = False

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        *,
        preloaded: bool | None = None,
    ) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.output = directory / "stdout"
        self.log = directory / "stderr"
        self.host = "127.0.0.1"
        self.port = 0
        self.version = ""
        self._settings = dict(settings or {})
        self._arguments = [*arguments]
        self._environment = _plain_environment() | dict(environment or {})
        self._preloaded = self.preloads if preloaded is None else preloaded
        self._process: Process | None = None

    @property
    def address(self) -> str:
        """Return `host:port`. The port is known after the first start."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """Return the id of the started process. Raises BrokerFailed if no process is started."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Return True if the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def command(self) -> list[str]:
        """Return the command line that starts this broker."""
        sets = [part for name, value in self._settings.items() for part in _set(name, value)]
        place = ["--port", str(self.port), "--data", str(self.data)]
        return [*PROGRAM, "serve", *place, *sets, *self._arguments]

    def fail_at(self, point: str | None) -> None:
        """Make later processes kill themselves at `name[:n]`, a fail point of the broker. None
        removes the fail point."""
        self._environment.pop("ONCELOG_FAIL_AT", None)
        if point is not None:
            self._environment["ONCELOG_FAIL_AT"] = point
            if "--allow-faults" not in self._arguments:
                self._arguments.append("--allow-faults")

    def wait_for_death(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait until the process ends by itself. Return its exit code: -9 after a SIGKILL.

        Raises BrokerFailed if the process does not end.
        """
        try:
            return self._running().wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise BrokerFailed(f"still running after {timeout_s} s: {self.said()}") from None

    def spawn(self) -> Process:
        """Start the process without waiting for it to listen."""
        self.directory.mkdir(parents=True, exist_ok=True)
        command = self.command()
        with self.output.open("wb") as output, self.log.open("ab") as log:
            if self._preloaded and can_be_forked(command, self._environment):
                self._process = start_preloaded(command, self._environment, output, log)
                return self._process
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                env=self._environment,
            )
        return self._process

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start the process. Return when it has printed its address.

        Raises BrokerFailed if the process ends before that, or prints no address in `timeout_s`.
        """
        self.port = self.port or reserve_port(self)
        process = self.spawn()
        deadline = time.monotonic() + timeout_s
        while (said := _START_LINE.search(self.output.read_text())) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(f"no start line, exit code {process.returncode}: {self.said()}")
            time.sleep(0.01)
        self.port = int(said["port"])
        self.version = said["version"]

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Send SIGTERM and return the exit code. If the process does not end in time, kill it and
        raise BrokerFailed."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise BrokerFailed(
                f"still running {timeout_s} s after SIGTERM: {self.said()}"
            ) from None
        finally:
            self.kill()

    def kill(self) -> None:
        """Send SIGKILL. The process cannot flush or print anything. The next start recovers the
        data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def said(self) -> str:
        """Return the end of the process's output, for the message of a failed test."""
        files = [file for file in (self.output, self.log) if file.exists()]
        return "\n".join(file.read_text(errors="replace")[-4000:] for file in files)

    def connect(self, timeout_s: float = 10.0) -> socket.socket:
        """Return a plain connection to the broker."""
        return socket.create_connection((self.host, self.port), timeout=timeout_s)

    def __enter__(self) -> Oncelog:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.stop()

    def _running(self) -> Process:
        if self._process is None:
            raise BrokerFailed("not running")
        return self._process


def _set(name: str, value: str) -> tuple[str, str]:
    return "--set", f"{name}={value}"


def _plain_environment() -> dict[str, str]:
    """Return the environment without the variables that configure a broker."""
    ours = ("KAFKA_", "ONCELOG_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}
