"""Tables about a micro-batch: the parts of its time as Spark reports them, our sink's part, and
its requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.spark.loads import REQUESTS
from benchmarks.spark.rows import MS_FIGURE
from benchmarks.spark.sink_log import FIGURES as SINK_FIGURES
from benchmarks.table import Figures, Rounds, medians, shown
from benchmarks.targets import ONCELOG

PARTS = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets")
"""The parts in the order in which a micro-batch goes through them, under the names in
`durationMs`."""

SELDOM = 0.2
"""Requests with fewer occurrences per micro-batch are not shown: they belong to the start of a
query."""


def parts(measured: Mapping[str, Rounds]) -> list[list[str]]:
    """Return a line for each load of micro-batches and each format, with the medians of its parts
    in ms."""
    lines = []
    for load, of_load in measured.items():
        for party, rounds in of_load.items():
            found = medians(rounds)
            if MS_FIGURE in found:
                lines.append([load, party, *_cells(found)])
    return lines


def sink_parts(measured: Mapping[str, Rounds]) -> list[list[str]]:
    """Return a line for each load of our sink, with the times of its driver and its tasks in
    `addBatch`."""
    lines = []
    for load, of_load in measured.items():
        found = medians(of_load.get(ONCELOG, ()))
        if SINK_FIGURES[0] in found:
            lines.append([load, *(shown(found[name]) for name in SINK_FIGURES)])
    return lines


SINK_HEADINGS = ("load", *SINK_FIGURES)


def headings() -> list[str]:
    """Return the headings of the lines of `parts`."""
    return ["load", "format", *PARTS, "other", "all"]


def requests(measured: Mapping[str, Rounds]) -> list[list[str]]:
    """Return a line for each load of micro-batches and each format, with the mean number of
    requests of each API per micro-batch, the most frequent API first."""
    lines = []
    for load, of_load in measured.items():
        for party, rounds in of_load.items():
            each = medians(rounds)
            asked = {
                name.removeprefix(REQUESTS): value
                for name, value in each.items()
                if name.startswith(REQUESTS) and value >= SELDOM
            }
            if asked:
                often = sorted(asked.items(), key=lambda item: -item[1])
                text = ", ".join(f"{name} {shown(value)}" for name, value in often)
                lines.append([load, party, text])
    return lines


REQUEST_HEADINGS = ("load", "format", "requests per micro-batch")


def _cells(found: Figures) -> list[str]:
    known = [found.get(name, 0.0) for name in PARTS]
    whole = found[MS_FIGURE]
    return [shown(value) for value in (*known, max(0.0, whole - sum(known)), whole)]


def as_markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return the table as Markdown."""
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
