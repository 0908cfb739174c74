"""`python -m oncelog_client.spark`: can this machine run the data source, and if not, why not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import click
import pyarrow
import pyspark

from .requirements import (
    MissingJava,
    UnreadyWorkers,
    UnsupportedSpark,
    check_java,
    check_pyspark,
    check_workers,
)


def _pyspark() -> str:
    check_pyspark()
    return f"PySpark {pyspark.__version__}"


def _java() -> str:
    return f"Java {check_java()}"


CHECKS: Final[tuple[Callable[[], str], ...]] = (
    lambda: f"Python {sys.version.split()[0]}",
    lambda: f"PyArrow {pyarrow.__version__}",
    _pyspark,
    _java,
    lambda: f"Spark's Python workers: {check_workers()}",
)


def main() -> int:
    """The exit code: 1 if something is missing."""
    missing = 0
    for check in CHECKS:
        try:
            click.echo(check())
        except (MissingJava, UnreadyWorkers, UnsupportedSpark) as error:
            missing = 1
            click.echo(str(error))
    return missing


if __name__ == "__main__":
    sys.exit(main())
