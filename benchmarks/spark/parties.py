"""The two formats of Spark that are compared. Each runs in its own Spark, with the same topics of
one broker."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.targets import KAFKA, ONCELOG
from tests.spark.connector import official
from tests.spark.connector.process import SparkProcess

NAMES: Final = (KAFKA, ONCELOG)
"""The formats' names: the official connector's is `kafka`, ours `oncelog`."""

_MODULE = "benchmarks.spark.program"

# `workers/sitecustomize.py` turns on logging in the Python workers of our format. The official
# connector has no such workers.
_TELLING = {"PYTHONPATH": str(Path(__file__).with_name("workers"))}

Parties = dict[str, SparkProcess]


@contextmanager
def running(names: list[str], folder: Path) -> Iterator[Parties]:
    """Start a Spark for each of these formats, one after the other. Raises ConnectorUnavailable."""
    parties: Parties = {}
    try:
        for name in names:
            parties[name] = _start(name, folder / name)
            parties[name].call("version")
        yield parties
    finally:
        for party in parties.values():
            party.close()


def _start(name: str, folder: Path) -> SparkProcess:
    folder.mkdir(parents=True)
    python = official.python() if name == KAFKA else sys.executable
    jars = official.jars() if name == KAFKA else ""
    log = folder / "spark.log"
    return SparkProcess(python, _MODULE, [name, jars, str(folder)], log, _TELLING)
