"""Kafka's Java client and tools in one JVM behind a pipe, so that only the first call waits for the
start of a JVM."""

from __future__ import annotations

import base64
import json
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.harness.kafka.compiled import compiled
from tests.harness.kafka.jars import class_archive, classpath, java
from tests.harness.kafka.tools import TOOL_JVM_OPTIONS, TOOLS, ToolFailed, ToolResult

CALL_TIMEOUT_S = 180.0

_SOURCE = Path(__file__).parent / "java" / "Driver.java"
# Through the fields of their threads, the driver finds the admin clients that a tool leaves open.
_READS_THREADS = "--add-opens=java.base/java.lang=ALL-UNNAMED"


class JavaError(Exception):
    """An exception of the Java client. `kind` is the simple name of its class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class JavaHangs(Exception):
    """The JVM sent no response in time and was killed, or it ended by itself."""


class JavaDriver:
    """Sends commands with `call` and runs tools with `tool`. The JVM starts at first use and after
    a hang."""

    def __init__(self, directory: Path, jvm_options: Sequence[str] = ()) -> None:
        self._log = directory / "driver.log"
        self._jvm_options = jvm_options
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._lock = threading.Lock()

    def call(self, op: str, *, timeout_s: float = CALL_TIMEOUT_S, **fields: Any) -> dict[str, Any]:
        """Send a command and return its response. Raises JavaError, JavaHangs, KafkaUnavailable."""
        with self._lock:
            process = self._process or self._start()
            assert process.stdin is not None
            process.stdin.write(json.dumps({"op": op} | fields) + "\n")
            process.stdin.flush()
            try:
                line = self._answers.get(timeout=timeout_s)
            except queue.Empty:
                line = None
            if line is None:
                self._kill()
                raise JavaHangs(f"{op} {fields}: no response in {timeout_s} s\n{self._said()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise JavaError(answer["error"], answer["message"])
        return answer

    def tool(
        self, name: str, *arguments: str, timeout_s: float = CALL_TIMEOUT_S, check: bool = True
    ) -> ToolResult:
        """Run the `main` of one of Kafka's tools. With `check`, raises ToolFailed for an exit code
        other than 0."""
        answer = self.call("tool", timeout_s=timeout_s, **{"class": TOOLS[name]}, args=arguments)
        result = ToolResult(answer["status"], answer["stdout"], answer["stderr"])
        if check and result.returncode:
            printed = f"{result.stdout}\n{result.stderr}"
            raise ToolFailed(f"{name} {' '.join(arguments)} -> {result.returncode}\n{printed}")
        return result

    def close(self) -> None:
        """End the JVM."""
        if self._process is not None:
            self._kill()

    def _start(self) -> subprocess.Popen[str]:
        # The jars come first: Java accepts a class archive only if the class path begins with the
        # jars of the archive.
        path = f"{classpath()}:{compiled(_SOURCE, classpath())}"
        options = (*TOOL_JVM_OPTIONS, *class_archive().options, _READS_THREADS, *self._jvm_options)
        self._answers = queue.Queue()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [java(), *options, "-cp", path, "Driver"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        threading.Thread(
            target=_read, args=(self._process, self._answers), daemon=True, name="java-driver"
        ).start()
        return self._process

    def _kill(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]


def _read(process: subprocess.Popen[str], answers: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            answers.put(line)
    answers.put(None)


def to_text(data: bytes | None) -> str | None:
    """Return bytes in the text form of the driver's pipe."""
    return None if data is None else base64.b64encode(data).decode()


def from_text(text: str | None) -> bytes | None:
    """Return bytes from the text form of the driver's pipe."""
    return None if text is None else base64.b64decode(text)


def java_config(settings: Mapping[str, object]) -> dict[str, str]:
    """Return settings in the form of a properties file."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }
