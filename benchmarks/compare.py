"""Compares several runs of the benchmarks. A row of the table is one measurement, and its goals are
`must` (a limit) and `aim` (a better value). A goal counts as met only if at least three runs
measured the row, and the worst of them meets the goal."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.document import Document
from benchmarks.table import Better, Result, Row, goals, percent, shown

RUNS_THAT_COUNT: Final = 3


class UnlikeRuns(Exception):
    """These runs cannot be compared. The message has the reason."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A row in several runs, with None for a run that did not measure the row."""

    row: Row
    found: tuple[Result | None, ...]

    @property
    def judged(self) -> list[float | None]:
        """Return for each run the figure that the goals apply to: the ratio oncelog / baseline, or
        oncelog's own figure. The figure is None for a run that does not have it."""
        return [None if result is None else result.judged for result in self.found]

    def median(self, figure: Callable[[Result], float | None]) -> float | None:
        """Return the median of a figure over the runs that have it."""
        found = [figure(result) for result in self.found if result is not None]
        known = [value for value in found if value is not None]
        return statistics.median(known) if known else None

    @property
    def worst(self) -> float | None:
        """Return the figure of the worst run, or None if no run measured the row."""
        known = [value for value in self.judged if value is not None]
        choose = min if self.row.better is Better.HIGHER else max
        return choose(known, default=None)

    @property
    def spread(self) -> float | None:
        """Return the largest spread of all runs, or None if no run has one. The spread of a run is
        the spread between its rounds."""
        spreads = [None if result is None else result.spread for result in self.found]
        return max((spread for spread in spreads if spread is not None), default=None)

    def meets(self, goal: float | None) -> bool | None:
        """Return True if at least three runs measured the row and all of them meet the goal. Return
        False if a run misses it. Return None without a goal, or if there are too few runs and none
        misses it."""
        if goal is None or self.worst is None:
            return None
        is_met = self.worst >= goal if self.row.better is Better.HIGHER else self.worst <= goal
        measured = sum(value is not None for value in self.judged)
        return None if is_met and measured < RUNS_THAT_COUNT else is_met

    @property
    def verdict(self) -> str:
        """Return "NO" if the must is missed, "aim" if the aim is met, "yes" if only the must is
        met, "needs 3 runs" if there are too few runs, or "" if nothing of this applies."""
        if self.row.must is None and self.row.aim is None:
            return ""
        if self.meets(self.row.must) is False:
            return "NO"
        if self.meets(self.row.aim):
            return "aim"
        if self.row.must is None:
            return ""
        return "yes" if self.meets(self.row.must) else f"needs {RUNS_THAT_COUNT} runs"


def check_alike(runs: Sequence[Document]) -> None:
    """Raise UnlikeRuns if a run is quick, or if the runs differ in their computers, code, settings
    or versions of Kafka."""
    quick = [run.when for run in runs if run.is_quick]
    if quick:
        raise UnlikeRuns(f"the run of {quick[0]} is a --quick run: its figures mean nothing")
    for name in ("machine", "commits", "settings", "kafka_version"):
        values = [getattr(run, name) for run in runs]
        if any(value != values[0] for value in values):
            raise UnlikeRuns(f"the runs differ in {name}: {values}")


def compare(runs: Sequence[Document], place: str, baseline: str) -> list[Compared]:
    """Return the rows of all runs in table order. `place` is the placement of the processes, pinned
    or unpinned. `baseline` is the broker that oncelog is compared with."""
    tables = [
        {result.row.name: result for result in run.results(place, baseline)}
        if place in run.rounds
        else {}
        for run in runs
    ]
    rows = {name: result.row for table in tables for name, result in table.items()}
    return [Compared(row, tuple(table.get(name) for table in tables)) for name, row in rows.items()]


def headings(baseline: str, runs: int) -> tuple[str, ...]:
    """Return the headings. A broker's column has the median of the runs. `spread`: the largest
    spread of all runs."""
    numbers = (f"run {number}" for number in range(1, runs + 1))
    figures = ("oncelog", baseline, *numbers, "worst", "spread")
    return ("what", "unit", *figures, "must", "aim", "met")


def cells(compared: Compared) -> list[str]:
    """Return a line of the table as text. A run's column has the ratio oncelog / baseline, or
    oncelog's own figure."""
    row = compared.row
    return [
        row.title,
        row.unit,
        shown(compared.median(lambda result: result.oncelog)),
        shown(compared.median(lambda result: result.baseline)),
        *map(shown, compared.judged),
        shown(compared.worst),
        percent(compared.spread),
        *goals(row),
        compared.verdict,
    ]


def missed(compared: Sequence[Compared]) -> list[Compared]:
    """Return the rows with a must that a run misses, or that fewer than three runs meet."""
    with_must = [found for found in compared if found.row.must is not None]
    return [found for found in with_must if not found.meets(found.row.must)]
