"""The requirements of the data source, with advice. `python -m oncelog_client.spark` checks this
machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyspark

OLDEST_PYSPARK: Final = (4, 2)
OLDEST_JAVA: Final = 17

GET_JAVA: Final = """\
  Debian, Ubuntu: apt install openjdk-17-jre-headless
  macOS:          brew install openjdk@17 && export JAVA_HOME=$(brew --prefix openjdk@17)"""

# `openjdk version "17.0.15" 2025-04-15`; up to Java 8 `java version "1.8.0_402"`.
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


class UnsupportedSpark(Exception):
    """Raised if this PySpark is too old for the data source."""


class UnreadyWorkers(Exception):
    """Raised if Spark would run its workers with a Python without oncelog. Spark itself would only
    report DATA_SOURCE_NOT_FOUND."""


class MissingJava(Exception):
    """Raised if there is no Java, or an old Java. PySpark itself would only report
    JAVA_GATEWAY_EXITED."""


def check_pyspark(version: str = pyspark.__version__) -> None:
    """Raise UnsupportedSpark if PySpark is older than 4.2. Version 4.2 brought limits for
    `latestOffset` and `Trigger.AvailableNow` for Python sources."""
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers < OLDEST_PYSPARK:
        wanted = ".".join(map(str, OLDEST_PYSPARK))
        raise UnsupportedSpark(
            f'format("oncelog") needs PySpark {wanted} or newer, this is {version}:'
            f' pip install "pyspark>={wanted}"'
        )


def check_workers(environment: Mapping[str, str] = os.environ) -> str:
    """Return the Python of Spark's workers on the driver's machine. Raises UnreadyWorkers if that
    Python has no oncelog."""
    python = environment.get("PYSPARK_PYTHON") or "python3"
    found = shutil.which(python, path=environment.get("PATH", "")) or ""
    code = "import importlib.util as u; assert u.find_spec('pyspark_oncelog')"
    if not found or not _runs(found, code, environment):
        raise UnreadyWorkers(
            f"Spark runs its Python workers with `{python}` ({found or 'not found'}), which has no"
            f" oncelog: activate this environment, or export PYSPARK_PYTHON={sys.executable}"
        )
    return found


def check_java(environment: Mapping[str, str] = os.environ) -> int:
    """Return the major version of the Java that PySpark starts. Raises MissingJava."""
    java, place = _find_java(environment)
    said = _version(java) if java else ""
    found = _JAVA_VERSION.search(said)
    if found is None:
        raise MissingJava(f"Spark needs Java {OLDEST_JAVA} or newer: none {place}\n{GET_JAVA}")
    version = int(found[1])
    if version < OLDEST_JAVA:
        raise MissingJava(
            f"Spark needs Java {OLDEST_JAVA} or newer: Java {version} {place}\n{GET_JAVA}"
        )
    return version


def _runs(python: str, code: str, environment: Mapping[str, str]) -> bool:
    command = [python, "-c", code]
    ended = subprocess.run(command, env=dict(environment), capture_output=True, check=False)
    return ended.returncode == 0


def _find_java(environment: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the Java that PySpark's scripts find, and its place as text for an error. It is the
    Java of JAVA_HOME, or of the PATH if JAVA_HOME is not set."""
    home = environment.get("JAVA_HOME")
    if home:
        return shutil.which("java", path=str(Path(home, "bin"))), f"in JAVA_HOME={home}"
    return shutil.which("java", path=environment.get("PATH", "")), "on the PATH"


def _version(java: str) -> str:
    """Return the output of `java -version`. The `java` of macOS may be a stub without a version."""
    try:
        return subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""
