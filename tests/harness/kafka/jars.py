"""Apache Kafka's jars. The computer's Maven fetches them once by name, and the user's cache keeps
them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.harness.class_archive import ClassArchive

KAFKA_VERSION = "4.3.1"
FETCH_TIMEOUT_S = 600.0

_POM = Path(__file__).with_name("pom.xml")


class KafkaUnavailable(Exception):
    """Apache Kafka cannot run here. The message has the reason."""


def cache_directory() -> Path:
    """Return the folder that keeps jars and compiled programs between runs."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "oncelog" / f"kafka-{KAFKA_VERSION}"


def java() -> str:
    """Return the path of `java`. Raises KafkaUnavailable without one."""
    found = shutil.which("java")
    if found is None:
        raise KafkaUnavailable("no `java` on the PATH (Java 17 or newer runs Apache Kafka)")
    return found


def classpath() -> str:
    """Return the class path of Apache Kafka and its tools. Fetch the jars at first use.

    Several processes may call this at once. Raises KafkaUnavailable with the reason.
    """
    java()
    return f"{jars_of(_POM, cache_directory())}/*"


@cache
def class_archive() -> ClassArchive:
    """Return the archive of the classes of Apache Kafka and its tools. Raises KafkaUnavailable."""
    return ClassArchive(cache_directory(), java(), jars_of(_POM, cache_directory()))


def jars_of(pom: Path, directory: Path) -> Path:
    """Return the folder in `directory` with the jars of `pom`. Fetch them at first use.

    Several processes may call this at once. Raises KafkaUnavailable with the reason.
    """
    jars, done = directory / "jars", directory / "jars.complete"
    wanted = hashlib.sha256(pom.read_bytes()).hexdigest()
    if not _is_complete(done, wanted):
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_complete(done, wanted):
                _fetch(pom, directory, jars)
                done.write_text(wanted)
    return jars


def _is_complete(done: Path, wanted: str) -> bool:
    return done.exists() and done.read_text() == wanted


def _fetch(pom: Path, directory: Path, jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable(f"no `mvn` on the PATH to fetch the jars of {directory.name}")
    # Maven writes `target` beside its pom. A copy keeps the source tree clean.
    work = directory / "fetch"
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(jars, ignore_errors=True)
    work.mkdir()
    shutil.copy(pom, work / "pom.xml")
    command = [maven, "-q", "-B", "-f", str(work / "pom.xml"), "dependency:copy-dependencies"]
    outcome = subprocess.run(
        [*command, f"-DoutputDirectory={jars}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
    )
    if outcome.returncode:
        raise KafkaUnavailable(f"mvn could not fetch {directory.name}: {outcome.stdout[-2000:]}")
