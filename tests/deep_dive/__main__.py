"""`make demo-failures`: the purchases pipeline with the seven failures of the article, the
transaction deep dive, one after another."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import click
from rich.console import Console

from examples.purchases.audit import Audit
from tests.deep_dive.failures import FAILURES, Failure
from tests.deep_dive.pipeline import Pipeline

# The number of purchases for each of the seven failures: 63,000 of the 69,659 purchases. Some
# of the others are written before the first failure, until every worker has read some.
PORTION = 9_000
WORKERS = 3

console = Console(highlight=False, soft_wrap=True)


def go_through(pipeline: Pipeline, failure: Failure) -> bool:
    """Cause a failure. Print the system's reactions and the audit. Return True if the outcome is
    the one that the article describes, and the audit passed."""
    console.print(f"\n[bold]{failure.number}. {failure.title}[/bold]")
    console.print(f"   the article: “{failure.article}”", style="dim")
    began = time.monotonic()
    try:
        for line in failure.inflict(pipeline, PORTION):
            console.print(f"   {line}")
        pipeline.wait_until_billed()
    except (AssertionError, TimeoutError) as error:
        console.print(f"   [red]not the article's outcome: {error}[/red]")
        return False
    return show(pipeline.audit(), len(pipeline.fed), time.monotonic() - began)


def show(result: Audit, purchases: int, seconds: float) -> bool:
    """Print the audit in one line, then examples of its errors. Return True if it passed."""
    passed = result.passed and result.results == 2 * purchases
    colour = "green" if passed else "red"
    console.print(
        f"   [{colour}]audit: {purchases:,} purchases, {result.results:,} invoices and shipments, "
        f"{result.duplicates} doubled, {result.losses} lost, {result.wrong} wrong[/{colour}]"
        f"  ({seconds:.1f} s)"
    )
    for example in result.examples:
        console.print(f"   {example}")
    return passed


@click.command()
def main() -> None:
    """Cause the seven failures of the transaction deep dive in real processes, and count the
    results."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="oncelog-failures-") as folder:
        try:
            with Pipeline(Path(folder), WORKERS) as pipeline:
                console.print(f"a broker, {WORKERS} workers and a proxy, as real processes")
                passed = [go_through(pipeline, failure) for failure in FAILURES]
        except (TimeoutError, FileNotFoundError) as error:
            console.print(f"[red]{error}[/red]")
            sys.exit(1)
    seconds = time.monotonic() - began
    console.print(f"\n{sum(passed)} of {len(FAILURES)} failures survived, {seconds:.0f} s")
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
