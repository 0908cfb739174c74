"""A driver in its own processes that a test may kill: `python -m tests.spark.driver` in the child.

If an input line has a pipeline, the child runs it over the existing records and reports the
outcome, or only its start. If an input line has a number, the child reports when at most that
number of tasks runs.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.spark.fail_points import FailPoints
from tests.spark.pipeline import Pipeline
from tests.spark.processes import kill
from tests.spark.session import LOCAL, ROOT, Spark

START_TIMEOUT_S: Final = 90.0
RUN_TIMEOUT_S: Final = 90.0
STOP_TIMEOUT_S: Final = 30.0


class DriverFailed(Exception):
    """The driver did not start, or did not respond in time; the message has the end of its log."""


class Driver:
    """A driver. Start it with `start()` or as a context manager. `settings` override those of the
    tests."""

    def __init__(
        self, directory: Path, master: str = LOCAL, settings: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.fail_points = FailPoints(directory / "fail-points")
        self.jvm_pid = 0
        self._master = master
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    def spawn(self) -> None:
        """Start the process. Do not wait for its session."""
        given = json.dumps([str(self.directory), self._master, self._settings])
        with (self.directory / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.driver", given],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def start(self) -> None:
        """Return once there is a session. Raises DriverFailed."""
        if self._process is None:
            self.spawn()
        self.jvm_pid = int(self._answer(START_TIMEOUT_S)["jvm_pid"])

    def begin(self, pipeline: Pipeline) -> None:
        """Start to run the pipeline; see `outcome`."""
        self._ask({"pipeline": pipeline.as_json(), "waits": True})

    def begin_beside(self, pipeline: Pipeline) -> None:
        """Start to run the pipeline beside other pipelines. Its outcome is not reported."""
        self._ask({"pipeline": pipeline.as_json(), "waits": False})
        assert self.outcome() is None

    def outcome(self, timeout_s: float = RUN_TIMEOUT_S) -> str | None:
        """Return the exception that ended the pipeline, None after success."""
        error = self._answer(timeout_s)["error"]
        return None if error is None else str(error)

    def run(self, pipeline: Pipeline) -> str | None:
        """Begin the pipeline and return its outcome."""
        self.begin(pipeline)
        return self.outcome()

    def wait_for_tasks(self, most: int) -> None:
        """Wait until at most this number of tasks runs. Spark may start the next batch, or end the
        query, while slower copies of finished tasks still run."""
        self._ask(most)
        assert self.outcome() is None

    def kill(self) -> None:
        """Send SIGKILL to the JVM and its Python program. Their Python workers notice it at their
        next read."""
        if self._process is not None:
            if self.jvm_pid:
                kill(self.jvm_pid)
            self._process.kill()
            self._end()

    def stop(self) -> None:
        """Stop the driver as a user would, or kill it after a timeout. None of its processes stays
        paused."""
        self.fail_points.clear()
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._end()

    def log(self) -> str:
        """Return the end of the driver's output, for the message of a failed test."""
        files = [self.directory / "driver.log", self.directory / "spark.log"]
        return "\n".join(
            file.read_text(errors="replace")[-4000:] for file in files if file.exists()
        )

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

    def _ask(self, what: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what).encode() + b"\n")
        self._process.stdin.flush()

    def _end(self) -> None:
        if self._process is None:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()
        self._process = None
        self.jvm_pid = 0

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout_s
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    raise DriverFailed(f"no response in {timeout_s:g} s: {self.log()}")
                read = os.read(self._process.stdout.fileno(), 65536)
                if not read:
                    raise DriverFailed(f"the driver has ended: {self.log()}")
                line += read
        answer: dict[str, Any] = json.loads(line)
        return answer


def _say(answer: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _do(asked: int | dict[str, Any], spark: Spark) -> None:
    if isinstance(asked, int):
        while running_tasks(spark) > asked:
            time.sleep(0.02)
        return
    query = Pipeline(**asked["pipeline"]).start(spark.session)
    if asked["waits"]:
        query.awaitTermination()


def running_tasks(spark: Spark) -> int:
    """Return the scheduler's running tasks, including copies of completed tasks."""
    context: Any = spark.session.sparkContext._jsc
    counts = context.sc().taskScheduler().runningTasksByExecutors().valuesIterator()
    running = 0
    while counts.hasNext():
        running += counts.next()
    return running


def _main() -> None:
    directory, master, settings = json.loads(sys.argv[1])
    spark = Spark(Path(directory), master, settings)
    spark.start()
    _say({"jvm_pid": spark.jvm_pid})
    try:
        for line in sys.stdin:
            try:
                _do(json.loads(line), spark)
            except Exception as error:
                _say({"error": f"{type(error).__name__}: {error}"})
            else:
                _say({"error": None})
    finally:
        spark.stop()


if __name__ == "__main__":
    _main()
