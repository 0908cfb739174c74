"""Where the job runs: in the driver itself, or on a standalone cluster of two workers."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

import pyspark

from examples.purchases_spark.processes import Driver

SPARK_CLASS: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"
START_TIMEOUT_S: Final = 60.0
# Two hosts, as far as Spark can tell.
HOSTS: Final = ("127.0.0.1", "127.0.0.2") if sys.platform == "linux" else ("127.0.0.1",) * 2


class Place(Protocol):
    @property
    def master(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, str]: ...

    def executors(self, driver: Driver) -> Sequence[int]:
        """The processes below which the tasks' Python workers are."""


class Local:
    """Two tasks at once in the driver's JVM; each may be made four times."""

    master = "local[2,4]"
    settings: Mapping[str, str] = {"spark.driver.memory": "1g"}

    def executors(self, driver: Driver) -> Sequence[int]:
        return [driver.pid]


class Standalone:
    """A master and two workers, started from what pip has installed. Raises ClusterFailed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        self.master = ""
        self.settings: Mapping[str, str] = {
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.cores.max": "2",
        }

    def executors(self, driver: Driver) -> Sequence[int]:
        return [process.pid for process in self._started[1:]]

    def __enter__(self) -> Self:
        log = self._start("master", "master.Master", "--host", HOSTS[0], "--port", "0")
        self.master = _wait_for(log, re.compile(r"Starting Spark master at (spark://\S+)"))
        for number, host in enumerate(HOSTS):
            place = ["--host", host, "--cores", "1", "--memory", "600m", "--work-dir"]
            work = str(self._folder / f"worker-{number}")
            log = self._start(f"worker-{number}", "worker.Worker", *place, work, self.master)
            _wait_for(log, re.compile(r"Successfully registered with master (\S+)"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in reversed(self._started):
            process.terminate()
        for process in self._started:
            process.wait()

    def _start(self, name: str, main: str, *arguments: str) -> Path:
        log = self._folder / f"{name}.log"
        with log.open("wb") as output:
            command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{main}", *arguments]
            self._started.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
                )
            )
        return log


class ClusterFailed(Exception):
    """A process of the cluster does not come up; the message holds what it said."""


def _wait_for(log: Path, line: re.Pattern[str]) -> str:
    deadline = time.monotonic() + START_TIMEOUT_S
    while (found := line.search(said := log.read_text(errors="replace"))) is None:
        if time.monotonic() > deadline:
            raise ClusterFailed(f"no `{line.pattern}` in {log}:\n{said[-2000:]}")
        time.sleep(0.05)
    return found[1]
