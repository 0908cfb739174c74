"""Prints the tables of a run, and those of several runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks import compare, table
from benchmarks.document import Document
from benchmarks.targets import AGAINST, KAFKA
from tests.harness.kafka.jars import KAFKA_VERSION

TITLES: Final[Mapping[str, str]] = {
    KAFKA: f"Apache Kafka {KAFKA_VERSION}",
    AGAINST: "another checkout",
}


def print_run(found: Document, *, as_markdown: bool) -> bool:
    """Print the tables of a run. Return True if a row misses its must."""
    for place in found.rounds:
        for baseline in found.baselines:
            title = f"oncelog / {TITLES[baseline]}, {place}"
            lines = list(map(table.cells, found.results(place, baseline)))
            show(title, table.headings(baseline), lines, as_markdown=as_markdown)
    return any(result.reaches(result.row.must) is False for result in found.all_results)


def print_comparison(runs: Sequence[Document], *, as_markdown: bool) -> bool:
    """Print several runs side by side. Return True if a row misses its must. Raises UnlikeRuns."""
    compare.check_alike(runs)
    for number, found in enumerate(runs, 1):
        facts = ", ".join(f"{name} {value}" for name, value in found.machine.items())
        commits = ", ".join(f"{name} {commit}" for name, commit in found.commits.items())
        print(f"run {number}: {found.when}, {commits}, {facts}")
    is_missed = False
    for place in runs[0].rounds:
        for baseline in runs[0].baselines:
            rows = compare.compare(runs, place, baseline)
            title = f"oncelog / {TITLES[baseline]}, {place}"
            lines = list(map(compare.cells, rows))
            show(title, compare.headings(baseline, len(runs)), lines, as_markdown=as_markdown)
            is_missed |= bool(compare.missed(rows))
    return is_missed


def show(
    title: str, heads: Sequence[str], lines: Sequence[Sequence[str]], *, as_markdown: bool
) -> None:
    """Print one table."""
    if as_markdown:
        print(f"\n{title}\n\n{table.markdown(heads, lines)}")
        return
    shown = Table(title=title, title_justify="left")
    for heading in heads:
        shown.add_column(heading, justify="left" if heading in ("what", "unit") else "right")
    for line in lines:
        shown.add_row(*line, style="red" if line[-1] == "NO" else "")
    Console(width=None if sys.stdout.isatty() else 160).print(shown)
