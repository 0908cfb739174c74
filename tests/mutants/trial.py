"""Runs the tests with a copy of the sources that has one defect."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.mutants.mutant import Mutant

ROOT: Final = Path(__file__).resolve().parent.parent.parent
# Pages are copied, too, because some tests compare them with the sources.
SOURCES: Final = (
    "protocol", "server", "client", "tests", "docs", "README.md", "pyproject.toml",
)  # fmt: skip
# Tests that run if the tests named for the defect did not find it. They need neither Java nor
# Spark.
WIDER: Final = ("tests/protocol", "tests/server", "tests/simulation")
# The id of a test's parameter may contain spaces.
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)
_LIMIT_S: Final = 600


def copy_sources(target: Path) -> Path:
    """Copy the sources to `target`, without byte code and recorded examples. Return `target`."""
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".hypothesis")
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy(source, target / name)
    return target


def first_failure(
    root: Path, tests: Sequence[str], passing_over: Sequence[str] = (), *, sound: bool = False
) -> str | None:
    """Return the first test that fails with the sources at `root`, or None if all pass. If the run
    does not end in time, return a text that says so. Raises RuntimeError if no test ran.

    `passing_over`: tests to leave out. `sound`: the sources have no defect, so their byte code is
    kept for later runs.
    """
    paths = [str(root / package) for package in ("protocol", "server", "client")]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(paths))
    environment["PYTHONDONTWRITEBYTECODE"] = "" if sound else "1"
    environment["ONCELOG_EXAMPLES"] = "all"  # all drawn inputs, and more models of the Spark sink
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    command += [f"--deselect={name}" for name in passing_over]
    try:
        ended = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return f"the run of {', '.join(tests)} did not end in time"
    if ended.returncode == 0:
        return None
    failed = _FAILED.search(ended.stdout)
    if failed is None:
        raise RuntimeError(f"{' '.join(command)}:\n{ended.stdout[-2_000:]}{ended.stderr[-2_000:]}")
    return failed[1]


@contextmanager
def defective(root: Path, mutant: Mutant) -> Iterator[None]:
    """Put the defect into the sources at `root` during the block."""
    path = root / mutant.file
    sound = path.read_text(encoding="utf-8")
    path.write_text(mutant.mutated(root), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(sound, encoding="utf-8")


def killer(root: Path, mutant: Mutant, *, wider: Sequence[str] = WIDER) -> str | None:
    """Return the first test that fails with the defect, or None. Leave `root` unchanged at the end.

    A test of `wider` counts only if it passes without the defect. If a run does not end in time,
    return the text of `first_failure`.
    """
    with defective(root, mutant):
        found = first_failure(root, mutant.tests)
    if found is not None or not wider:
        return found
    broken: list[str] = []
    while True:
        with defective(root, mutant):
            found = first_failure(root, wider, broken)
        if found is None or "::" not in found or first_failure(root, [found]) is None:
            return found
        broken.append(found)  # the test also fails without the defect
