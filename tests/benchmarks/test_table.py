"""Medians, ratios and verdicts of the bench, by hand-made rounds."""

from __future__ import annotations

import pytest

from benchmarks.lifecycle import GROWTH
from benchmarks.loads import LOADS
from benchmarks.rows import ROWS
from benchmarks.run import MEMORY, START
from benchmarks.table import (
    HEADINGS,
    Better,
    Judged,
    Result,
    Row,
    agree,
    cells,
    markdown,
    medians,
    results,
    shown,
)
from benchmarks.targets import KAFKA, ONCELOG

RATE = Row("load", "per_s", "rate", "/s", Better.HIGHER, must=1.0, aim=1.5)
TIME = Row("load", "p99_us", "time", "µs", Better.LOWER, must=1.0, aim=0.7)
COUNT = Row("load", "retries", "count", "", Better.LOWER, Judged.OWN, must=0)


def test_the_median_of_each_figure_is_taken_over_the_rounds() -> None:
    rounds = [{"per_s": 1.0, "p99_us": 30.0}, {"per_s": 9.0, "p99_us": 10.0}]
    assert medians([*rounds, {"per_s": 2.0, "p99_us": 20.0}]) == {"per_s": 2.0, "p99_us": 20.0}
    assert medians([]) == {}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], False),
        ([100, 100], False),
        ([100, 100, 100], True),
        ([50, 100, 96, 98], True),
        ([100, 94, 100], False),
        ([0, 0, 0], True),
    ],
)
def test_three_rounds_within_five_percent_agree(values: list[float], expected: bool) -> None:
    assert agree(values) is expected


@pytest.mark.parametrize(
    ("row", "oncelog", "kafka", "met", "aim_met"),
    [
        (RATE, 100, 100, True, False),
        (RATE, 99, 100, False, False),
        (RATE, 150, 100, True, True),
        (TIME, 70, 100, True, True),
        (TIME, 71, 100, True, False),
        (TIME, 101, 100, False, False),
        (COUNT, 0, 158, True, None),
        (COUNT, 1, 0, False, None),
        (RATE, 100, None, None, None),
        (COUNT, 0, None, True, None),
        (RATE, None, 100, None, None),
    ],
)
def test_a_verdict_follows_the_direction_and_what_is_judged(
    row: Row, oncelog: float | None, kafka: float | None, met: bool | None, aim_met: bool | None
) -> None:
    result = Result(row, oncelog, kafka)
    assert (result.reaches(row.must), result.reaches(row.aim)) == (met, aim_met)


def test_results_are_the_rows_of_what_was_measured() -> None:
    rounds = {ONCELOG: [{"per_s": 3.0, "p99_us": 5.0}], KAFKA: [{"per_s": 2.0, "p99_us": 10.0}]}
    other = Row("other", "per_s", "", "", Better.HIGHER)
    found = results([RATE, other, TIME], {"load": rounds})
    assert [(row.row, row.ratio) for row in found] == [(RATE, 1.5), (TIME, 0.5)]
    assert found[0].as_json()["met"] is True


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "-"), (0.0, "0"), (0.012345, "0.0123"), (4.561, "4.56"), (123456.7, "123,457")],
)
def test_figures_are_shown_with_three_digits(value: float | None, expected: str) -> None:
    assert shown(value) == expected


def test_a_missed_must_is_said_in_the_table() -> None:
    line = cells(Result(RATE, 50, 100))
    assert len(line) == len(HEADINGS)
    assert line[-1] == "NO"
    assert markdown([Result(RATE, 50, 100)]).splitlines()[-1].endswith("| NO |")


def test_every_row_is_of_a_load_that_exists_and_every_load_has_a_row() -> None:
    known = {START, MEMORY, *LOADS, *GROWTH}
    assert {row.load for row in ROWS} == known
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_an_aim_is_beyond_its_must() -> None:
    for row in ROWS:
        if row.must is not None and row.aim is not None:
            ahead = row.aim >= row.must if row.better is Better.HIGHER else row.aim <= row.must
            assert ahead, row.name
