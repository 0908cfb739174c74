"""The comparison of several benchmark runs. The tests construct the documents of the runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from benchmarks.compare import UnlikeRuns, cells, check_alike, compare, headings, missed
from benchmarks.document import Document, UnreadableDocument, read, write
from benchmarks.musts import PINNED
from benchmarks.table import shown
from benchmarks.targets import AGAINST, KAFKA, ONCELOG


def a_run(ratio: float, load: str = "small", baseline: str = KAFKA) -> Document:
    rounds = {ONCELOG: [{"per_s": 100.0 * ratio}], baseline: [{"per_s": 100.0}]}
    return Document(
        when="2026-11-23T12:00:00+00:00",
        is_quick=False,
        kafka_version="4.3.1",
        machine={"cpu": "some", "cores": 2},
        commits={ONCELOG: "abc"},
        settings={},
        rounds={PINNED: {load: rounds}},
    )


@pytest.mark.parametrize(
    ("ratios", "verdict", "is_missed"),
    [
        ([1.45, 1.41, 1.49], "yes", False),
        ([1.6, 1.5, 1.7], "aim", False),
        ([1.6, 1.39, 1.7], "NO", True),
        ([1.6, 1.7], "needs 3 runs", True),
        ([1.6, 1.3], "NO", True),
    ],
)
def test_a_required_ratio_is_met_if_the_worst_of_three_runs_meets_it(
    ratios: list[float], verdict: str, is_missed: bool
) -> None:
    rows = compare([a_run(ratio) for ratio in ratios], PINNED, KAFKA)
    found = next(row for row in rows if row.row.name == "small.per_s")
    assert found.worst == pytest.approx(min(ratios))
    assert found.verdict == verdict
    assert (found in missed(rows)) is is_missed
    line = cells(found)
    assert len(line) == len(headings(KAFKA, len(ratios)))
    assert line[2:4] == [shown(100 * median(ratios)), "100"]


def test_a_run_without_a_value_does_not_count_as_one_of_the_three_runs() -> None:
    rows = compare([a_run(1.6), a_run(1.6), a_run(1.6, "small8")], PINNED, KAFKA)
    found = next(row for row in rows if row.row.name == "small.per_s")
    assert [value is None for value in found.judged] == [False, False, True]
    assert found.verdict == "needs 3 runs"


def test_the_worst_run_has_the_highest_figure_if_lower_is_better() -> None:
    runs = []
    for cpu in (0.9, 1.0, 1.1):
        run = a_run(1.0, baseline=AGAINST)
        rounds = {ONCELOG: [{"cpu_us": cpu}], AGAINST: [{"cpu_us": 1.0}]}
        runs.append(replace(run, rounds={PINNED: {"small8": rounds}}))
    rows = compare(runs, PINNED, AGAINST)
    found = next(row for row in rows if row.row.name == "small8.cpu_us")
    assert (found.worst, found.verdict) == (1.1, "NO")


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (replace(a_run(1), machine={"cpu": "other", "cores": 2}), "machine"),
        (replace(a_run(1), commits={ONCELOG: "def"}), "commits"),
        (replace(a_run(1), settings={"a": "b"}), "settings"),
        (replace(a_run(1), kafka_version="4.3.0"), "kafka_version"),
        (replace(a_run(1), is_quick=True), "quick"),
    ],
)
def test_runs_that_differ_are_not_compared(other: Document, name: str) -> None:
    check_alike([a_run(1), a_run(2)])
    with pytest.raises(UnlikeRuns, match=name):
        check_alike([a_run(1), other])


def test_the_baseline_of_a_run_is_the_other_broker_that_it_measured() -> None:
    assert a_run(1).baselines == [KAFKA]
    assert a_run(1, baseline=AGAINST).baselines == [AGAINST]


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "results" / "run.json"
    write(a_run(1.2), path)
    assert read(path) == a_run(1.2)


@pytest.mark.parametrize("content", [None, "", "[]", "{}"])
def test_a_file_that_is_no_result_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "run.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UnreadableDocument, match="no result"):
        read(path)
