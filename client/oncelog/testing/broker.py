"""A broker process for tests. A test can kill it, and start it again on the same data."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from oncelog.testing.clock import Clock
from oncelog.testing.faults import Faults
from oncelog.testing.ports import reserve_ports
from oncelog_client.core.arguments import mapping

PROGRAM: Final = (sys.executable, "-m", "oncelog_server")
START_TIMEOUT_S: Final = 60.0
# A stop that waits for a processor, or decides many transactions first, takes long under load.
STOP_TIMEOUT_S: Final = 120.0

# A test waits less, and needs less processor time, than with the defaults.
QUICK: Final = {
    # The waits before the first rebalance of a group, before the abort of a transaction that has
    # timed out, and before the compaction of a log.
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
    # The default is 50.
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.num.partitions": "5",
}

_START_LINE = re.compile(
    r"^oncelog (?P<version>\S+) listening on (?P<host>\S+):(?P<port>\d+)"
    r"(?: \((?:every address(?:, without authentication)?)?(?:(?:; )?advertised as \S+)?\))?"
    r", data in (?P<data>.+)$",
    re.MULTILINE,
)


class BrokerFailed(Exception):
    """The process failed to start or to stop (the message has its output), or is not running."""


class Process(Protocol):
    """The methods of `subprocess.Popen` that a broker needs."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, number: int) -> None: ...

    def kill(self) -> None: ...


class BrokerProcess:
    """A broker process. `start()` or the context manager starts it. Clients connect to `address`.

    `directory` has the data and the output of the process. `settings` have Kafka's names.
    `arguments` are further arguments of `oncelog serve`.

    The first start picks the port, and every later start keeps it. No other process gets the port
    while the broker is down.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
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
        data = ["--data", str(self.data)]
        return [*PROGRAM, "serve", *self._address_arguments(), *data, *sets, *self._arguments]

    def _address_arguments(self) -> list[str]:
        return ["--port", str(self.port)]

    def _port_count(self) -> int:
        """Return the number of brokers in this process. Their ports follow each other."""
        brokers = self._settings.get("oncelog.brokers", "1")
        # `oncelog serve` refuses every other value.
        return int(brokers) if re.fullmatch("[1-9][0-9]?", brokers) else 1

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
        return self._spawn()

    def _spawn(self, *arguments: str, descriptors: Sequence[int] = ()) -> Process:
        """Start the process with further arguments. It inherits the descriptors."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.output.open("wb") as output, self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command(), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                env=self._environment,
                pass_fds=descriptors,
            )
        return self._process

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start the process. Return when it has printed its address.

        Raises BrokerFailed if the process ends before that, or prints no address in `timeout_s`.
        """
        self.port = self.port or reserve_ports(self, self._port_count())
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
            self.stop()

    def _running(self) -> Process:
        if self._process is None:
            raise BrokerFailed("not running")
        return self._process


class Broker(BrokerProcess):
    """A broker for tests and scripts, in a directory of its own that is deleted at the end.

    Use it as a context manager, with `with` or `async with`, or call `start()` and `close()`:

        with Broker({"num.partitions": "3"}) as broker:
            run_my_app(broker.bootstrap_servers)

    `settings` are added to QUICK. `data` keeps the data in an existing or new directory instead.
    The broker also ends, and its directory stays, if this process ends without `close()`.
    """

    def __init__(
        self, settings: Mapping[str, object] | None = None, *, data: Path | str | None = None
    ) -> None:
        given = mapping("settings", settings or {})
        self._is_temporary = data is None
        super().__init__(
            Path(tempfile.mkdtemp(prefix="oncelog-") if data is None else data),
            {**QUICK, **{name: setting_text(value) for name, value in given.items()}},
            arguments=["--allow-faults"],
        )
        self.faults = Faults(self.data)
        self.clock = Clock(self.faults)
        # This end of the link to the process. Only the end of this process or `kill` closes it.
        self._link: socket.socket | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Return `host:port`, as clients name it."""
        return self.address

    def _address_arguments(self) -> list[str]:
        """Return the arguments that let the broker listen on this computer only."""
        return [*_set("listeners", f"PLAINTEXT://{self.host}:{self.port}")]

    def spawn(self) -> Process:
        """Start the process without waiting for it to listen. It stops when this process ends,
        because its link to this process ends (`--parent-link`)."""
        self._close_link()
        self.faults.conclude()
        self._link, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            return self._spawn("--parent-link", str(descriptor), descriptors=[descriptor])

    def kill(self) -> None:
        """Send SIGKILL. The process cannot flush or print anything. The next start recovers the
        data."""
        super().kill()
        self._close_link()
        self.faults.conclude()

    def _close_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def restart(self) -> None:
        """Stop the process cleanly if it runs, and start it again on the same data and port. All
        faults end, and the clock shows the time of the system again."""
        if self.is_running:
            self.resume()  # a paused process would not stop
            self.stop()
        self.start()
        self.clock.is_ahead = False

    def pause(self) -> None:
        """Stop the process with SIGSTOP: connections stay open, and no request gets a response."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process continue (SIGCONT)."""
        self._running().send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the process, and delete the directory unless `data` names it."""
        try:
            if self.is_running:
                self.resume()
                self.stop()
        finally:
            self.kill()
            if self._is_temporary:
                shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return super().__enter__()
        except BaseException:
            self.close()  # the message of BrokerFailed has the end of the log
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        starting = asyncio.create_task(asyncio.to_thread(self.start))
        try:
            await asyncio.shield(starting)
        except BaseException:
            # A thread cannot be cancelled: the process may start after the cancellation.
            await asyncio.gather(starting, return_exceptions=True)
            await asyncio.to_thread(self.close)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)


def _set(name: str, value: str) -> tuple[str, str]:
    return "--set", f"{name}={value}"


def setting_text(value: object) -> str:
    """Return a setting as text: `true` for True, as in a file of properties."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain_environment() -> dict[str, str]:
    """Return the environment without the variables that configure a broker."""
    ours = ("KAFKA_", "ONCELOG_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}
