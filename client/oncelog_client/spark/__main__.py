"""`python -m oncelog_client.spark`: check that this machine can run the data source."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import click

# Each check imports its own packages, because the program also runs on machines without them.


def _python() -> str:
    return f"Python {sys.version.split()[0]}"


def _pyarrow() -> str:
    import pyarrow

    return f"PyArrow {pyarrow.__version__}"


def _pyspark() -> str:
    import pyspark

    from .requirements import check_pyspark

    check_pyspark()
    return f"PySpark {pyspark.__version__}"


def _java() -> str:
    from .requirements import check_java

    return f"Java {check_java()}"


def _workers() -> str:
    from .requirements import check_workers

    return f"Spark's Python workers: {check_workers()}"


CHECKS: Final[tuple[Callable[[], str], ...]] = (_python, _pyarrow, _pyspark, _java, _workers)


def _failure(check: Callable[[], str]) -> str:
    """Run a check. Print its result and return an empty text, or return the requirement that is
    missing."""
    try:
        click.echo(check())
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: pip install 'oncelog[spark]'"
    except Exception as error:
        from .requirements import MissingJava, UnreadyWorkers, UnsupportedSpark

        if not isinstance(error, MissingJava | UnreadyWorkers | UnsupportedSpark):
            raise
        return str(error)
    return ""


def main() -> int:
    """Run all checks. Return the exit code: 1 if something is missing."""
    failures: dict[str, None] = {}
    for check in CHECKS:
        failure = _failure(check)
        if failure and failure not in failures:
            click.echo(failure)
            failures[failure] = None
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
