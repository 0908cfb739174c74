"""Medians, ratios and verdicts of the bench, with rounds written by hand.

The `must` of a row is the limit that its figure has to keep. The `aim` is a better figure.
"""

from __future__ import annotations

import pytest

from benchmarks.lifecycle import GROWTH
from benchmarks.loads import LOADS
from benchmarks.musts import MUSTS, PINNED, SPIN, UNPINNED, rows_of
from benchmarks.rows import ROWS
from benchmarks.run import MEMORY, START
from benchmarks.table import (
    Better,
    Judged,
    Result,
    Row,
    agree,
    cells,
    headings,
    markdown,
    medians,
    results,
    shown,
    spread,
)
from benchmarks.targets import AGAINST, KAFKA, ONCELOG

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
def test_a_row_is_judged_by_its_ratio_or_by_the_figure_of_oncelog_alone(
    row: Row, oncelog: float | None, kafka: float | None, met: bool | None, aim_met: bool | None
) -> None:
    result = Result(row, oncelog, kafka)
    assert (result.reaches(row.must), result.reaches(row.aim)) == (met, aim_met)


def test_results_are_the_rows_of_the_measured_loads() -> None:
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


def test_a_result_has_the_spread_of_the_rounds_of_both_brokers() -> None:
    rounds = {ONCELOG: [{"per_s": at} for at in (9.0, 10.0, 12.0)], KAFKA: [{"per_s": 2.0}]}
    (found,) = results([RATE], {"load": rounds})
    assert found.spread == pytest.approx(0.3)
    assert found.spreads[1] is None
    assert "30% / -" in cells(found)
    assert spread([{"per_s": 0.0}, {"per_s": 0.0}], "per_s") is None


def test_a_row_is_compared_with_the_broker_that_is_named() -> None:
    rounds = {name: [{"per_s": at}] for name, at in ((ONCELOG, 3.0), (KAFKA, 2.0), (AGAINST, 4.0))}
    (found,) = results([RATE], {"load": rounds}, AGAINST)
    assert (found.baseline, found.ratio) == (4.0, 0.75)


def test_a_missed_must_is_shown_in_the_table() -> None:
    line = cells(Result(RATE, 50, 100))
    assert len(line) == len(headings(KAFKA))
    assert line[-1] == "NO"
    assert markdown(headings(KAFKA), [line]).splitlines()[-1].endswith("| NO |")


def test_every_row_is_of_a_load_that_exists_and_every_load_has_a_row() -> None:
    known = {START, MEMORY, *LOADS, *GROWTH}
    assert {row.load for row in ROWS} == known
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_every_must_belongs_to_a_row() -> None:
    assert set(MUSTS) <= {row.name for row in ROWS}


@pytest.mark.parametrize("place", [PINNED, UNPINNED])
@pytest.mark.parametrize("baseline", [KAFKA, AGAINST])
def test_the_aim_of_a_row_is_at_least_as_good_as_its_must(place: str, baseline: str) -> None:
    for row in rows_of(place, baseline, {}):
        if row.must is not None and row.aim is not None:
            ahead = row.aim >= row.must if row.better is Better.HIGHER else row.aim <= row.must
            assert ahead, row.name


@pytest.mark.parametrize(
    ("name", "place", "baseline", "must"),
    [
        ("small.per_s", PINNED, KAFKA, 1.4),
        ("small.per_s", UNPINNED, KAFKA, 0.95),
        ("produce16k.mb_per_s", UNPINNED, KAFKA, None),
        ("rdtxn.p99_us", PINNED, KAFKA, None),
        ("small.per_s", UNPINNED, AGAINST, 0.97),
        ("rdtxn.p99_us", PINNED, AGAINST, 1.03),
        ("idle.slower", PINNED, AGAINST, 1.5),
        ("acl1000.kept", UNPINNED, KAFKA, 0.97),
        ("acl1000.kept", PINNED, AGAINST, 0.97),
        ("acl1000.per_s", PINNED, KAFKA, None),
        ("tls16k.cpu_s_per_gb", PINNED, KAFKA, 1.0),
        ("rdtls1k.per_s", UNPINNED, KAFKA, 1.0),
        ("tlssingle.p50_us", PINNED, KAFKA, 1.0),
        ("javatlsconsume1k.per_s", PINNED, AGAINST, 0.97),
        ("tlsconnect.cpu_us", UNPINNED, KAFKA, 1.0),
        ("tlsresume.resumed", PINNED, KAFKA, 1.0),
        ("tlsresume.resumed", PINNED, AGAINST, 1.0),
        ("tlsidle.all_mb", PINNED, KAFKA, 1.0),
    ],
)
def test_the_must_of_a_row_depends_on_the_placement_and_the_baseline(
    name: str, place: str, baseline: str, must: float | None
) -> None:
    assert {row.name: row.must for row in rows_of(place, baseline, {})}[name] == must


def test_a_broker_that_polls_its_sockets_has_a_stricter_must_for_single_messages() -> None:
    def must(value: str) -> float | None:
        rows = rows_of(PINNED, KAFKA, {SPIN: value})
        return {row.name: row.must for row in rows}["single.p50_us"]

    assert (must("0"), must("50")) == (0.85, 0.6)
