"""Debian's PostgreSQL 15 with logical decoding, and sessions of its client psql. If the computer
has no server, apt-get downloads it once, and the user's cache keeps the packages. Nothing is
installed."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from oncelog.testing.ports import reserve_port
from tests.harness.processes import children

INSTALLED = Path("/usr/lib/postgresql/15/bin")
# The server, psql, and the libraries that a small Debian has not.
PACKAGES = (
    "postgresql-15", "postgresql-client-15", "libpq5", "libxml2", "libicu72", "libldap-2.5-0",
    "libsasl2-2",
)  # fmt: skip
FETCH_TIMEOUT_S = 300.0
START_TIMEOUT_S = 60.0
_RUN_TIMEOUT_S = 60.0
_DONE = "the statements have run"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
}


class PostgresUnavailable(Exception):
    """PostgreSQL cannot run here. The message has the reason."""


class SessionLost(Exception):
    """A session has ended. It is unknown whether its last statements took effect."""


class Postgres:
    """A PostgreSQL server, started by `start()` or the context manager, with its data in its own
    folder below /tmp. Raises PostgresUnavailable.

    The server refuses to run as root. Root starts it as the user `daemon`, which owns the data.
    """

    def __init__(self, log: Path) -> None:
        self.port = reserve_port(self)
        self.log = log
        self._folder = tempfile.TemporaryDirectory(prefix="oncelog-postgres-")
        folder = Path(self._folder.name)
        self._environment = {**os.environ, "LC_ALL": "C"}
        self._programs = INSTALLED
        if not (INSTALLED / "postgres").exists():
            self._unpack(folder)
        self._data = folder / "data"
        self._data.mkdir(mode=0o700)
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("daemon")
            self._user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            folder.chmod(0o755)
            os.chown(self._data, user.pw_uid, user.pw_gid)
        self._process: subprocess.Popen[bytes] | None = None
        self._initialize()

    def _unpack(self, folder: Path) -> None:
        """Unpack the packages below `folder`, because the server's user cannot read the cache of
        root."""
        for package in _packages():
            _run(["dpkg", "-x", str(package), str(folder)], folder)
        self._programs = folder / INSTALLED.relative_to("/")
        libraries = [*folder.glob("usr/lib/*-linux-gnu"), *folder.glob("lib/*-linux-gnu")]
        self._environment["LD_LIBRARY_PATH"] = ":".join(map(str, libraries))

    def _initialize(self) -> None:
        command = [str(self._programs / "initdb"), "--pgdata", str(self._data), "--no-sync"]
        command += ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]
        _run(command, self._data, env=self._environment, **self._user)

    def spawn(self) -> subprocess.Popen[bytes]:
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        for name, value in _SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._data,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                **self._user,
            )
        return self._process

    def start(self) -> None:
        """Start the server, and return when it accepts statements. After a kill, the start recovers
        the data."""
        process = self.spawn()
        end = time.monotonic() + START_TIMEOUT_S
        while not self._is_ready():
            assert time.monotonic() < end, f"PostgreSQL did not start: {self.said()}"
            if process.poll() is not None:
                # The killed server's last process still uses the shared memory.
                time.sleep(0.1)
                process = self.spawn()
            time.sleep(0.02)

    def kill(self) -> None:
        """Send SIGKILL to the server and to each of its processes."""
        process = self._process
        if process is None:
            return
        found = children(process.pid)
        process.kill()
        for child in found:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()
        self._process = None

    def said(self) -> str:
        """Return the end of the server's output."""
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""

    def session(self) -> Session:
        """Return a session of psql. Its first statements raise SessionLost if the server is
        down."""
        program = str(self._programs / "psql")
        return Session(
            [program, "--host=127.0.0.1", f"--port={self.port}", "--username=postgres"],
            self._environment,
        )

    def execute(self, statements: str) -> list[str]:
        """Run statements in a session of their own, and return the lines of the result. Raises
        SessionLost."""
        with self.session() as session:
            return session.execute(statements)

    def _is_ready(self) -> bool:
        try:
            self.execute("SELECT 1;")
        except SessionLost:
            return False
        return True

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
        self._folder.cleanup()


class Session:
    """A process of psql, which ends at the first error or when it loses its connection."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        options = ["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]
        self._process = subprocess.Popen(
            [*command, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )

    def execute(self, statements: str) -> list[str]:
        """Run statements, and return the lines of their results. Raises SessionLost."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{statements}\n\\echo {_DONE}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise SessionLost from None
        lines: list[str] = []
        for line in self._process.stdout:
            if line.rstrip("\n") == _DONE:
                return lines
            lines.append(line.rstrip("\n"))
        raise SessionLost

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue


def _packages() -> list[Path]:
    """Return the packages' files in the user's cache. Download them at first use. Raises
    PostgresUnavailable."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    directory = Path(root) / "oncelog" / "postgresql-15"
    directory.mkdir(parents=True, exist_ok=True)
    done = directory / "complete"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            if not shutil.which("apt-get") or not shutil.which("dpkg"):
                raise PostgresUnavailable(f"neither {INSTALLED} nor Debian's `apt-get` exists")
            _run(["apt-get", "download", "--quiet=2", *PACKAGES], directory)
            done.touch()
    return sorted(directory.glob("*.deb"))


def _run(command: Sequence[str], folder: Path, **options: Any) -> None:
    outcome = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
        **options,
    )
    if outcome.returncode:
        raise PostgresUnavailable(f"{' '.join(command)}: {outcome.stdout[-1000:]}")
