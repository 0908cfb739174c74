"""The processes of the job: the driver and the Python workers of its executors. The demo can kill
them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from examples.purchases_spark.cluster import SPARK_HOME, Place

JOB: Final = Path(__file__).with_name("job.py")
# This daemon forks the workers that run tasks, and they keep its command line. Daemons with other
# command lines plan and commit.
TASK_WORKER: Final = "-m pyspark.daemon pyspark.worker"
TASK_LOST: Final = "Lost task "

SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "WARN",
    "spark.ui.enabled": "false",
}


class Process(NamedTuple):
    pid: int
    parent: int
    command: str


class Driver:
    """The driver: `spark-submit` of the job. `kill` sends SIGKILL."""

    def __init__(self, place: Place, servers: str, folder: Path) -> None:
        self.log = folder / "driver.log"
        self._place = place
        self._settings = {**SETTINGS, "spark.local.dir": str(folder / "spark"), **place.settings}
        self._arguments = [servers, str(folder / "checkpoints")]
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        conf = [part for name, value in self._settings.items() for part in _conf(name, value)]
        zips = ",".join(map(str, self._place.py_files))
        files = ["--py-files", zips] if zips else []
        submit = str(Path(sys.executable).with_name("spark-submit"))
        return [submit, "--master", self._place.master, *conf, *files, str(JOB), *self._arguments]

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
            )

    def _environment(self) -> dict[str, str]:
        """Return the environment of the driver. It names this Spark and these Pythons, even if the
        caller's environment names others."""
        pythons = {
            "PYSPARK_PYTHON": str(self._place.python),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        return {**os.environ, **pythons, "SPARK_HOME": str(SPARK_HOME)}

    def executors(self) -> Sequence[int]:
        """Return the ids of the processes that have the Python workers for tasks as descendants."""
        return [self.pid] if self._place.executors is None else self._place.executors

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Send SIGKILL to the JVM. Its Python processes then end by themselves."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def lost_tasks(self) -> int:
        """Return the number of failed attempts that Spark has repeated, over all starts of the
        driver."""
        return self.log.read_text(errors="replace").count(TASK_LOST)

    def wait_for_lost_task(self, so_far: int, timeout_s: float) -> bool:
        """Return True once Spark has repeated more than `so_far` failed attempts. Return False if
        this does not happen in time."""
        deadline = time.monotonic() + timeout_s
        while (more := self.lost_tasks() > so_far) is False and time.monotonic() < deadline:
            time.sleep(0.05)
        return more

    def last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])


def kill_task_worker(ancestor: int) -> bool:
    """Send SIGKILL to one Python worker below the process `ancestor`. Return False without a
    worker."""
    workers = [
        descendant.pid for descendant in descendants(ancestor) if TASK_WORKER in descendant.command
    ]
    parents = {process.parent for process in processes()}
    for pid in workers:
        if pid not in parents:
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def processes() -> list[Process]:
    listing = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    return [
        Process(int(pid), int(parent), command)
        for pid, parent, command in (line.split(maxsplit=2) for line in listing.splitlines())
    ]


def descendants(pid: int) -> Iterator[Process]:
    children: dict[int, list[Process]] = {}
    for process in processes():
        children.setdefault(process.parent, []).append(process)
    found = [*children.get(pid, [])]
    while found:
        process = found.pop()
        yield process
        found += children.get(process.pid, [])


def _conf(name: str, value: str) -> tuple[str, str]:
    return "--conf", f"{name}={value}"
