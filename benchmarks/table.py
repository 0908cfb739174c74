"""The table of a run: medians, ratios and verdicts, from the figures of its rounds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from benchmarks.targets import KAFKA, ONCELOG

AGREEMENT = 0.05
ROUNDS_THAT_AGREE = 3


class Better(Enum):
    """The direction in which a metric gets better."""

    HIGHER = "higher"
    LOWER = "lower"


class Judged(Enum):
    """The figure that the goals of a row (`must` and `aim`) apply to: the ratio oncelog / baseline,
    or the figure of oncelog alone."""

    RATIO = "ratio"
    OWN = "own"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a figure of a load, and its goals."""

    load: str
    figure: str
    title: str
    unit: str
    better: Better
    judged: Judged = Judged.RATIO
    must: float | None = None
    aim: float | None = None

    @property
    def name(self) -> str:
        return f"{self.load}.{self.figure}"


@dataclass(frozen=True, slots=True)
class Result:
    """A row with the median of oncelog and of the baseline (the other broker). The median is
    None for a broker without a measurement. `spreads`: of each broker, the spread of its rounds."""

    row: Row
    oncelog: float | None
    baseline: float | None
    spreads: tuple[float | None, float | None] = (None, None)

    @property
    def ratio(self) -> float | None:
        """Return oncelog / baseline, or None if a figure is missing or the baseline's is 0."""
        if self.oncelog is None or not self.baseline:
            return None
        return self.oncelog / self.baseline

    @property
    def spread(self) -> float | None:
        """Return the larger spread of the two brokers."""
        return max((spread for spread in self.spreads if spread is not None), default=None)

    @property
    def judged(self) -> float | None:
        return self.ratio if self.row.judged is Judged.RATIO else self.oncelog

    def reaches(self, goal: float | None) -> bool | None:
        """Return True if the goal (the row's `must` or `aim`) is met. Return None without a goal or
        without the figure."""
        if goal is None or self.judged is None:
            return None
        return self.judged >= goal if self.row.better is Better.HIGHER else self.judged <= goal

    def as_json(self) -> dict[str, Any]:
        row = asdict(self.row)
        row |= {"better": self.row.better.value, "judged": self.row.judged.value}
        return row | {
            "oncelog": self.oncelog,
            "baseline": self.baseline,
            "ratio": self.ratio,
            "spreads": self.spreads,
            "met": self.reaches(self.row.must),
            "aim_met": self.reaches(self.row.aim),
        }


Figures = Mapping[str, float]
Rounds = Mapping[str, Sequence[Figures]]
"""The figures of each round, by the broker's name."""


def medians(rounds: Sequence[Figures]) -> dict[str, float]:
    """Return the median of each figure over the rounds. A missing figure counts as 0."""
    names = dict.fromkeys(name for figures in rounds for name in figures)
    return {name: statistics.median(figures.get(name, 0.0) for figures in rounds) for name in names}


def spread(rounds: Sequence[Figures], name: str) -> float | None:
    """Return the range of a figure over the rounds, as a share of its median. Return None with
    fewer than two rounds or a median of 0."""
    values = [figures.get(name, 0.0) for figures in rounds]
    if len(values) < 2 or not statistics.median(values):
        return None
    return (max(values) - min(values)) / abs(statistics.median(values))


def agree(values: Sequence[float]) -> bool:
    """Return True if the last three rounds differ by at most 5 %, as with a warm broker."""
    last = values[-ROUNDS_THAT_AGREE:]
    return len(last) == ROUNDS_THAT_AGREE and max(last) - min(last) <= AGREEMENT * max(last)


def results(
    rows: Sequence[Row], measured: Mapping[str, Rounds], baseline: str = KAFKA
) -> list[Result]:
    """Return the rows of the measured loads, in the order of `rows`, beside the broker with the
    name `baseline`."""
    found = []
    for row in rows:
        if row.load in measured:
            rounds = measured[row.load]
            figures = {name: medians(of_one).get(row.figure) for name, of_one in rounds.items()}
            spreads = {name: spread(of_one, row.figure) for name, of_one in rounds.items()}
            found.append(
                Result(
                    row,
                    figures.get(ONCELOG),
                    figures.get(baseline),
                    (spreads.get(ONCELOG), spreads.get(baseline)),
                )
            )
    return found


def shown(value: float | None) -> str:
    """Return a number with three digits, or with all digits before the point: 0.0123, 4.56, 789,
    12,345."""
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def cells(result: Result) -> list[str]:
    """Return the texts of a line of the table, in the order of `headings`."""
    row = result.row
    met = {True: "yes", False: "NO", None: ""}[result.reaches(row.must)]
    figures = [shown(result.oncelog), shown(result.baseline), shown(result.ratio)]
    spreads = " / ".join(map(percent, result.spreads)) if result.spread is not None else ""
    return [row.title, row.unit, *figures, spreads, *goals(row), met]


def goals(row: Row) -> list[str]:
    """Return must and aim as text, or empty texts without goals."""
    sign = "≥" if row.better is Better.HIGHER else "≤"
    return [f"{sign} {shown(goal)}" if goal is not None else "" for goal in (row.must, row.aim)]


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def headings(baseline: str) -> tuple[str, ...]:
    """Return the headings of a table beside this broker. `spread`: those of both brokers."""
    return ("what", "unit", "oncelog", baseline, "ratio", "spread", "must", "aim", "met")


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in the form of docs/performance.md."""
    every = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in every)
