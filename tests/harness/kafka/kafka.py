"""One Apache Kafka node (KRaft, broker and controller) as a child process. It is the control that
oncelog is compared with."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from oncelog.testing.ports import reserve_port
from tests.harness.kafka.jars import class_archive, classpath, java
from tests.harness.kafka.tools import run_tool

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0
# Options for tests, not for measurements: with the first compiler stage alone, a JVM starts faster.
TEST_JVM_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

CLUSTER_ID = "b25jZWxvZy1jb250cm9sLQ"
# The files of a formatted folder depend on these settings.
_FORMATTED = ("process.roles", "node.id", "log.dirs")
# Metadata v1 without topics, from a client without a name. The response lists live brokers.
_METADATA = struct.pack(">hhihi", 3, 1, 1, 0, 0)


class KafkaFailed(Exception):
    """Apache Kafka failed to start (the message has the end of its log), or was not started."""


def quick_jvm_options() -> tuple[str, ...]:
    """Return the JVM options of tests. If the archive of classes exists, they include its
    options."""
    return (*TEST_JVM_OPTIONS, *class_archive().options)


class Kafka:
    """A Kafka process. `start()` or the context manager starts it. Clients connect to `address`.

    `settings` override the default server.properties. `jvm_options` override the options of the
    JVM, for example in a benchmark. `log_level` is the least level of what the node logs.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] | None = None,
        log_level: str = "INFO",
    ) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.log = directory / "kafka.log"
        self.jvm_options = quick_jvm_options() if jvm_options is None else tuple(jvm_options)
        self._log_level = log_level
        self.port, self._controller_port = reserve_port(self), reserve_port(self)
        self.address = f"127.0.0.1:{self.port}"
        self._properties = directory / "server.properties"
        self._settings = self._default_settings() | dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the id of the started process. Raises KafkaFailed if no process is started."""
        if self._process is None:
            raise KafkaFailed("not started")
        return self._process.pid

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the process without waiting for a response. Format the folder before the first
        start."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write_properties()
        if not self.data.exists():
            self._format()
        command = [java(), *self.jvm_options, f"-Dorg.apache.logging.log4j.level={self._log_level}"]
        command += ["-cp", self._class_path(), "kafka.Kafka", str(self._properties)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        return self._process

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start on the same ports and data as before.

        Return when the broker lists itself. Raises KafkaFailed if the process ends before that, or
        after `timeout_s`.
        """
        process = self.spawn()
        deadline = time.monotonic() + timeout_s
        while not self._lists_itself():
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise KafkaFailed(f"Apache Kafka did not start:\n{self._end_of_log()}")
            time.sleep(0.05)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Shut the node down in a controlled way. Kill it if it does not end in time."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """Send SIGKILL. The process cannot flush or print anything. The next start recovers the
        data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _class_path(self) -> str:
        return classpath()

    def _write_properties(self) -> None:
        lines = [f"{name}={value}" for name, value in self._settings.items()]
        self._properties.write_text("\n".join(lines) + "\n")

    def _format(self) -> None:
        """Create the data folder. If the settings in `_FORMATTED` have their defaults, write the
        files that `formatted_files` returns. Otherwise run Kafka's storage tool."""
        defaults = self._default_settings()
        if any(self._settings[name] != defaults[name] for name in _FORMATTED):
            run_tool("storage", "format", "-t", CLUSTER_ID, "-c", str(self._properties))
            return
        files = formatted_files()
        self.data.mkdir()
        for name, content in files.items():
            (self.data / name).write_bytes(content)

    def _default_settings(self) -> dict[str, str]:
        controller = f"127.0.0.1:{self._controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(self.data),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }

    def _lists_itself(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.settimeout(5)
                connection.sendall(struct.pack(">i", len(_METADATA)) + _METADATA)
                answer = connection.recv(4096)
        except OSError:
            return False
        return len(answer) >= 12 and struct.unpack_from(">i", answer, 8)[0] > 0

    def _end_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


@cache
def formatted_files() -> dict[str, bytes]:
    """Return the files of a folder that Kafka's tool has formatted, by name.

    The files have ids and versions, but no address and no path. Each node is its own cluster, so
    nodes may share the ids. The tool needs its own JVM, so it runs only once.
    """
    with tempfile.TemporaryDirectory() as folder:
        kafka = Kafka(Path(folder))
        kafka._write_properties()
        run_tool("storage", "format", "-t", CLUSTER_ID, "-c", str(kafka._properties))
        return {file.name: file.read_bytes() for file in kafka.data.iterdir()}
