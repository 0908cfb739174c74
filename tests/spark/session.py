"""A real Spark: a JVM with its output in a file, small and fast enough for tests."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from tests.harness.class_archive import ClassArchive
from tests.spark.fail_points import FailPoints
from tests.spark.forked_readers import READERS, stream_readers

ROOT: Final = Path(__file__).resolve().parent.parent.parent
STOP_TIMEOUT_S: Final = 30.0
# A JVM writes the class archive when it ends. This takes 15 s on an idle computer.
ARCHIVE_TIMEOUT_S: Final = 120.0
LOG_TIMEOUT_S: Final = 30.0

# Two tasks at once, and a task may fail three times before its job does.
LOCAL: Final = "local[2,4]"

# For tests, not for measurements. A JVM with only the first compiler stage starts faster.
JVM_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")

SETTINGS: Final = {
    "spark.app.name": "oncelog-tests",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    # After test_stage_retry Spark takes its only executor for lost and refuses its heartbeats. By
    # default the JVM would end ten minutes later, while other tests still run.
    "spark.executor.heartbeat.maxFailures": "1000000",
    "spark.log.level": "WARN",
    "spark.python.daemon.module": "tests.spark.worker_daemon",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    # For a few rows, compiling a query takes longer than its run. tests/spark/connector, the demo
    # and the benchmarks run with Spark's defaults.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class NoJava(Exception):
    """Spark cannot run here. The message names the missing part."""


def java() -> str:
    """Return the path of the `java` that Spark will use. Raises NoJava without one."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if found is None:
        place = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise NoJava(f"no `java` {place} (Java 17 or newer runs Spark)")
    return found


@cache
def class_archive() -> ClassArchive:
    """Return the class archive for Spark's programs, beside Spark's jars. Raises NoJava."""
    jars = Path(pyspark.__file__).parent / "jars"
    return ClassArchive(Path(sys.prefix) / "spark-classes", java(), jars)


def jvm_options() -> str:
    """Return the JVM's options in one line, as Spark expects them. They name the class archive, if
    there is one."""
    return shlex.join((*JVM_OPTIONS, *class_archive().options))


def settings(directory: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return Spark's settings for a driver. All its files are below `directory`."""
    places = {
        "spark.driver.extraJavaOptions": jvm_options(),
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    return {**SETTINGS, **places, **(more or {})}


class Spark:
    """A driver in this process. `log`: the output of the JVM and its Python workers. `fail_points`:
    the fail points of the workers."""

    def __init__(
        self, directory: Path, master: str = LOCAL, more: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.log = directory / "spark.log"
        self.fail_points = FailPoints(directory / "fail-points")
        self.session: SparkSession
        self._master = master
        self._settings = settings(directory, more)
        self._gateway: Any = None

    def start(self) -> None:
        """Start the session. Raises NoJava, or an exception of PySpark; the log then has the
        reason."""
        java()
        conf = SparkConf(loadDefaults=False)
        conf.setAll([("spark.master", self._master), *self._settings.items()])
        with self.log.open("ab") as log, _environment(worker_environment(self.fail_points)):
            output = {"stdout": log, "stderr": subprocess.STDOUT}
            launch: Any = launch_gateway  # has no types
            self._gateway = launch(conf, output)
            try:
                context = SparkContext(conf=conf, gateway=self._gateway)
            except BaseException:
                self._end_jvm()
                raise
        self.session = SparkSession(context)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the session and its JVM, so that the next session has a new JVM."""
        try:
            self.session.stop()
        finally:
            self._end_jvm(timeout_s)

    def wait_for_log(self, line: str, times: int = 1) -> int:
        """Wait until the pattern `line` matches in the log at least `times` times. Return the
        number of matches. A thread copies the output of Python workers. It may lose the last lines
        of a worker when the query ends, so wait while the query runs."""
        deadline = time.monotonic() + LOG_TIMEOUT_S
        while (found := len(re.findall(line, self._said(), re.MULTILINE))) < times:
            assert time.monotonic() < deadline, f"the log has {line!r} {found} times, not {times}"
            time.sleep(0.02)
        return found

    def _said(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def jvm_pid(self) -> int:
        """Return the process id of the JVM. A test kills the JVM to kill the driver."""
        return int(self._gateway.proc.pid)

    def _end_jvm(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        process = self._gateway.proc
        self._gateway.shutdown()
        # The JVM ends when no process holds its standard input open.
        process.stdin.close()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        SparkContext._gateway = None
        SparkContext._jvm = None


def make_class_archive() -> None:
    """Run a small job of each kind to create the archive. Every later Spark then starts faster."""

    def run(options: Sequence[str]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            chosen = shlex.join((*JVM_OPTIONS, *options))
            spark = Spark(Path(folder), more={"spark.driver.extraJavaOptions": chosen})
            spark.start()
            try:
                spark.session.range(3).collect()
                rate = spark.session.readStream.format("rate-micro-batch")
                written = rate.option("rowsPerBatch", 1).load().writeStream.format("noop")
                checkpoint = str(Path(folder, "checkpoint"))
                written.trigger(once=True).start(checkpointLocation=checkpoint).awaitTermination()
            finally:
                spark.stop(ARCHIVE_TIMEOUT_S)

    class_archive().make(run)


def worker_environment(fail_points: FailPoints) -> dict[str, str]:
    """Return the environment of Python workers: the tests' modules, the interpreter and the fail
    points."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYSPARK_PYTHON": str(Path(__file__).with_name("worker_python.sh")),
        "WORKER_PYTHON": sys.executable,
        READERS: stream_readers(),
        **fail_points.environment,
    }


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
