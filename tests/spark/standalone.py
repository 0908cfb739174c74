"""A standalone Spark cluster from the pip install: a master, and a worker on each of two hosts.

Spark runs the second copy of a slow task only on another host. 127.0.0.1 and 127.0.0.2 count as two
hosts.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyspark

from tests.spark.fail_points import FailPoints
from tests.spark.session import java, jvm_options, worker_environment

HOSTS: Final = ("127.0.0.1", "127.0.0.2")
CORES: Final = 2
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 20.0

_SPARK: Final = Path(pyspark.__file__).parent


def executors() -> dict[str, str]:
    """Return settings for every driver of the cluster: each worker runs one small executor."""
    return {
        "spark.executor.memory": "512m",
        "spark.executor.cores": str(CORES),
        "spark.executor.extraJavaOptions": jvm_options(),
    }


class StandaloneFailed(Exception):
    """The cluster did not start. The message has the end of each log."""


class Standalone:
    """A cluster. Start it with `start()` or as a context manager. `master` is then the address for
    drivers.
    `fail_points`: the fail points of the executors' Python workers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.fail_points = FailPoints(directory / "fail-points")
        self.master = ""
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Return once the workers are registered. Raises NoJava or StandaloneFailed."""
        java()
        self.directory.mkdir(parents=True, exist_ok=True)
        master = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self._spawn("master", "org.apache.spark.deploy.master.Master", master)
        (self.master,) = self._wait_for(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)\n", 1)
        for host in HOSTS:
            place = ("--work-dir", str(self.directory / "work" / host))
            size = ("--cores", str(CORES), "--memory", "1g", "--webui-port", "0")
            worker = ("--host", host, *size, *place, self.master)
            self._spawn(f"worker-{host}", "org.apache.spark.deploy.worker.Worker", worker)
        self._wait_for(r"Registering worker .* with", len(HOSTS))

    def stop(self) -> None:
        """Resume paused processes and stop the cluster, the workers before the master. Each worker
        ends its executors."""
        self.fail_points.clear()
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def log(self, name: str = "master") -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _spawn(self, name: str, java_class: str, arguments: Sequence[str]) -> None:
        environment = {
            **os.environ,
            **worker_environment(self.fail_points),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": jvm_options(),
            "SPARK_PUBLIC_DNS": "127.0.0.1",
        }
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(_SPARK / "bin" / "spark-class"), java_class, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                )
            )

    def _wait_for(self, pattern: str, times: int) -> list[str]:
        """Wait until `pattern` matches `times` times in the master's log. Return the matches.
        Raises StandaloneFailed."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while len(found := re.findall(pattern, self.log())) < times:
            ended = any(process.poll() is not None for process in self._processes)
            if ended or time.monotonic() > deadline:
                logs = sorted(self.directory.glob("*.log"))
                said = "\n".join(log.read_text(errors="replace")[-2000:] for log in logs)
                raise StandaloneFailed(f"no {times} x {pattern!r}: {said}")
            time.sleep(0.05)
        return found
