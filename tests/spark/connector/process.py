"""Spark in its own process behind a pipe, with the PySpark of that process's Python.

`SparkProcess` sends calls, `serve` responds. A call is one line with a JSON object, and so is its
response.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

# The first call also waits for the start of Spark.
CALL_TIMEOUT_S = 120.0

_ROOT = Path(__file__).parents[3]

Operations = Mapping[str, Callable[..., Any]]


class SparkError(Exception):
    """An operation has raised an exception. `kind` is the name of the exception's class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class SparkHangs(Exception):
    """The process sent no response in time, and was ended."""


class SparkProcess:
    """The operations of a module, run by `python -m module *arguments`; a context manager."""

    def __init__(
        self,
        python: str,
        module: str,
        arguments: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        self._answers: queue.Queue[str | None] = queue.Queue()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [python, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=_ROOT,
                env=os.environ | {"PYSPARK_PYTHON": python} | dict(environment or {}),
            )
        threading.Thread(target=self._read, daemon=True, name=module).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, operation: str, *, timeout_s: float = CALL_TIMEOUT_S, **fields: Any) -> Any:
        """Return the result of an operation. Raises SparkError, SparkHangs."""
        stdin = self._process.stdin
        assert stdin is not None
        if stdin.closed:
            raise SparkHangs(
                f"{operation}: the process was ended, because an earlier call got no response"
            )
        stdin.write(json.dumps({"operation": operation, "fields": fields}) + "\n")
        stdin.flush()
        try:
            line = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            line = None
        if line is None:
            self.close()
            raise SparkHangs(f"{operation} {fields}: no response in {timeout_s} s\n{self.said()}")
        answer = json.loads(line)
        if "error" in answer:
            raise SparkError(answer["error"], answer["message"])
        return answer["result"]

    def said(self) -> str:
        """Return the end of Spark's log."""
        return self.log.read_text(errors="replace")[-4000:]

    def close(self) -> None:
        """Close the process's standard input, which ends the process and its JVM. Kill the process
        after a timeout."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> SparkProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._answers.put(line)
        self._answers.put(None)


def serve(operations: Operations) -> None:
    """Respond to calls until standard input ends. Spark's output goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        call = json.loads(line)
        try:
            answer = {"result": operations[call["operation"]](**call["fields"])}
        except Exception as error:  # the caller raises it as SparkError
            answer = {"error": type(error).__name__, "message": _without_frames(str(error))}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _without_frames(message: str) -> str:
    """Return Java's messages of an error and its causes, without the hundred lines of stack
    traces."""
    return "\n".join(line for line in message.splitlines() if not line.startswith("\tat "))
