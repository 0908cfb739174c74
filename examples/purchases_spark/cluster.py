"""The place where the job runs: the driver itself, or a standalone cluster of two workers."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Final, NamedTuple

import pyarrow
import pyspark

from oncelog_client.spark.executors_zip import write_executors_zip

SPARK_HOME: Final = Path(pyspark.__file__).parent
START_TIMEOUT_S: Final = 60.0
# Two addresses, which Spark takes for two hosts.
HOSTS: Final = ("127.0.0.1", "127.0.0.2") if sys.platform == "linux" else ("127.0.0.1",) * 2


class Place(NamedTuple):
    """The place of the job. `python`: the interpreter of Spark's Python workers. `executors`: the
    ids of the processes that start the executors, or None if the driver runs the tasks itself."""

    master: str
    settings: Mapping[str, str]
    python: Path = Path(sys.executable)
    py_files: Sequence[Path] = ()
    executors: Sequence[int] | None = None


# These JVMs run for a minute on two cores, so only the compiler's first stage is worth its time.
BRIEF: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
DRIVER: Final = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": BRIEF}
EXECUTORS: Final = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": BRIEF,
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
}

# The driver's JVM runs two tasks at once, with four attempts for each task.
LOCAL: Final = Place("local[2,4]", DRIVER)


class Standalone:
    """A master and two workers of the installed PySpark. The workers' Python has PyArrow but no
    oncelog, so they get oncelog as a zip. The start raises ClusterFailed if a process does not
    start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Place:
        log = self._start("master", "master.Master", "--host", HOSTS[0], "--port", "0")
        master = _wait_for(log, re.compile(r"Starting Spark master at (spark://\S+)"))
        workers = [
            self._start(
                f"worker-{number}",
                *("worker.Worker", "--host", host, "--cores", "1", "--memory", "600m"),
                *("--work-dir", str(self._folder / f"worker-{number}"), master),
            )
            for number, host in enumerate(HOSTS)
        ]
        for log in workers:
            _wait_for(log, re.compile(r"Successfully registered with master (\S+)"))
        zipped = self._folder / "oncelog-executors.zip"
        write_executors_zip(zipped)
        return Place(
            master,
            DRIVER | EXECUTORS,
            python_with(self._folder / "python", pyarrow),
            [zipped],
            [process.pid for process in self._started[1:]],
        )

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
            command = [
                str(SPARK_HOME / "bin" / "spark-class"),
                f"org.apache.spark.deploy.{main}",
                *arguments,
            ]
            self._started.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
                )
            )
        return log


def python_with(folder: Path, *packages: ModuleType) -> Path:
    """Make a virtual environment with the standard library and these packages. Return its
    interpreter."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for package in packages:
        (installed,) = package.__path__
        (site / package.__name__).symlink_to(installed)
    return folder / "bin" / "python"


class ClusterFailed(Exception):
    """A process of the cluster does not start. The message has its output."""


def _wait_for(log: Path, line: re.Pattern[str]) -> str:
    deadline = time.monotonic() + START_TIMEOUT_S
    while (found := line.search(said := log.read_text(errors="replace"))) is None:
        if time.monotonic() > deadline:
            raise ClusterFailed(f"no `{line.pattern}` in {log}:\n{said[-2000:]}")
        time.sleep(0.05)
    return found[1]
