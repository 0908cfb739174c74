"""The message for a missing requirement names it and says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog_client.spark.requirements import (
    MissingJava,
    UnreadyWorkers,
    UnsupportedSpark,
    check_java,
    check_pyspark,
    check_workers,
)


@pytest.mark.parametrize(
    ("version", "will_do"),
    [
        ("4.1.4", False),
        ("4.2.0", True),
        ("4.2.1", True),
        ("4.3.0", True),
        ("4.10.0.dev1", True),
        ("5.0.0", True),
    ],
)
def test_pyspark_is_accepted_from_version_4_2_on(version: str, will_do: bool) -> None:
    try:
        check_pyspark(version)
    except UnsupportedSpark:
        assert not will_do
    else:
        assert will_do


@pytest.mark.parametrize("version", ["3.5.9", "4.0.0", "4.1.4"])
def test_the_error_for_an_old_pyspark_says_what_to_install(version: str) -> None:
    with pytest.raises(UnsupportedSpark) as refused:
        check_pyspark(version)
    assert str(refused.value) == (
        f'format("oncelog") needs PySpark 4.2 or newer, this is {version}:'
        ' pip install "pyspark>=4.2"'
    )


def java_that_says(folder: Path, words: str) -> dict[str, str]:
    """Return an environment with a `java` that prints `words` as its version."""
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{words}' >&2\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(folder), "PATH": os.environ["PATH"]}


@pytest.mark.parametrize(
    ("words", "version"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "25" 2025-09-16', 25)],
)
def test_the_java_that_spark_will_start_is_found(tmp_path: Path, words: str, version: int) -> None:
    assert check_java(java_that_says(tmp_path, words)) == version


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ('java version "1.8.0_402"', "Java 8 in JAVA_HOME="),
        ('openjdk version "11.0.22" 2024-01-16', "Java 11 in JAVA_HOME="),
        ("Unable to locate a Java Runtime.", "none in JAVA_HOME="),
    ],
)
def test_the_error_for_an_old_java_says_how_to_install_a_newer_one(
    tmp_path: Path, words: str, what: str
) -> None:
    with pytest.raises(MissingJava) as missing:
        check_java(java_that_says(tmp_path, words))
    message = str(missing.value)
    assert message.startswith("Spark needs Java 17 or newer: ")
    assert what in message
    assert "apt install openjdk-17-jre-headless" in message
    assert "brew install openjdk@17" in message


@pytest.mark.parametrize(
    ("environment", "where"),
    [({"PATH": "/nowhere"}, "none on the PATH"), ({"JAVA_HOME": "/nowhere"}, "none in JAVA_HOME")],
)
def test_the_error_for_missing_java_says_where_it_was_searched(
    environment: dict[str, str], where: str
) -> None:
    with pytest.raises(MissingJava, match=where):
        check_java(environment)


def test_workers_with_a_python_without_oncelog_are_refused(tmp_path: Path) -> None:
    bare = tmp_path / "bare" / "bin"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(bare.parent)], check=True, timeout=60
    )
    with pytest.raises(UnreadyWorkers) as unready:
        check_workers({"PATH": str(bare)})
    assert f"`python3` ({bare}/python3), which has no oncelog" in str(unready.value)
    assert str(unready.value).endswith(f"export PYSPARK_PYTHON={sys.executable}")
    ready = {"PATH": str(bare), "PYSPARK_PYTHON": sys.executable}
    assert check_workers(ready) == sys.executable


def test_the_check_command_lists_what_is_installed_and_fails_without_java() -> None:
    command = [sys.executable, "-m", "oncelog_client.spark"]
    environment = {"PATH": "/nowhere", "PYSPARK_PYTHON": sys.executable}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert said.returncode == 1
    assert "PySpark 4." in said.stdout
    assert "Spark needs Java 17 or newer: none on the PATH" in said.stdout
    assert said.stdout.endswith(f"Spark's Python workers: {sys.executable}\n")


@pytest.mark.parametrize("missing", ["pyarrow", "pyspark"])
def test_the_check_command_says_how_to_install_a_missing_package(missing: str) -> None:
    program = (
        f"import sys, runpy; sys.modules[{missing!r}] = None;"
        "runpy.run_module('oncelog_client.spark', run_name='__main__')"
    )
    environment = {"PATH": os.environ["PATH"], "PYSPARK_PYTHON": sys.executable}
    said = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
    )
    assert said.returncode == 1
    assert said.stdout.count(f"{missing} is not installed: pip install 'oncelog[spark]'") == 1
    assert "Traceback" not in said.stderr
