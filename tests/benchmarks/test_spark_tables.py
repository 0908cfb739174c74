"""The figures of the Spark bench, computed from Spark's progress and our sink's log."""

from __future__ import annotations

import pytest

from benchmarks.spark.loads import LOADS, REQUESTS, SIZES, Pace, figures
from benchmarks.spark.parts import parts, requests, sink_parts
from benchmarks.spark.rows import ROWS, SECURED_ROWS
from benchmarks.spark.secured import SECURED_FULL, SECURED_QUICK
from benchmarks.spark.sink_log import FIGURES, sink_figures
from benchmarks.targets import KAFKA, ONCELOG

LOG = """\
13:11:02.001 driver: sink bench-1: planned, 4 round trips, 30.0 ms
13:11:02.201 driver: batch 0: committed, tasks took 9+7 ms, 3 round trips, 9.5 ms
13:11:02.400 WARN something else: 7 round trips
13:11:03.001 driver: sink bench-1: planned, 2 round trips, 4.0 ms
13:11:03.201 driver: batch 1: committed, tasks took 5+6 ms, 3 round trips, 8.5 ms
"""


def batch(rows: int, **durations: int) -> dict[str, object]:
    return {"numInputRows": rows, "durationMs": durations}


def test_every_row_of_the_table_belongs_to_a_load() -> None:
    assert {row.load for row in ROWS} == set(LOADS)


@pytest.mark.parametrize("pace", [SECURED_FULL, SECURED_QUICK])
def test_the_topic_beside_no_security_has_the_rows_of_all_micro_batches(pace: Pace) -> None:
    loads = {row.load for row in SECURED_ROWS}
    sizes = {size for name, size in SIZES.items() if f"source{name}" in loads}
    assert loads <= set(LOADS)
    assert sizes == set(pace.micro_batches)
    assert all(size * sum(batches) <= pace.rows for size, batches in pace.micro_batches.items())


def test_figures_are_the_median_of_each_part_and_the_rows_a_second() -> None:
    done = [batch(100, triggerExecution=200, addBatch=90), batch(98, triggerExecution=100)]
    found = figures([*done, batch(100, triggerExecution=300, addBatch=200)])
    assert found == {"triggerExecution": 200, "addBatch": 90, "rows_per_s": 500}


def test_the_figures_of_the_sink_are_those_of_the_last_micro_batches() -> None:
    assert sink_figures(LOG, 1) == dict(zip(FIGURES, (4.0, 2, 6, 8.5, 3), strict=True))
    assert sink_figures(LOG, 5)["longest task ms"] == pytest.approx(7.5)
    assert sink_figures("", 5) == {}


def test_the_tables_have_a_line_for_each_load_that_has_micro_batches() -> None:
    turn = {"triggerExecution": 200.0, "addBatch": 90.0, "walCommit": 60.0, "rows_per_s": 500.0}
    ours = turn | sink_figures(LOG, 1) | {f"{REQUESTS}EndTxn": 1.0, f"{REQUESTS}Metadata": 0.1}
    measured = {
        "read100": {KAFKA: [{"rows_per_s": 1.0}]},
        "sink100": {KAFKA: [turn], ONCELOG: [ours]},
    }
    assert [line[:2] for line in parts(measured)] == [["sink100", KAFKA], ["sink100", ONCELOG]]
    assert parts(measured)[0][-2:] == ["50", "200"]
    assert requests(measured) == [["sink100", ONCELOG, "EndTxn 1"]]
    assert sink_parts(measured) == [["sink100", "4", "2", "6", "8.5", "3"]]


def test_micro_batches_have_100_10k_and_100k_rows() -> None:
    assert list(SIZES.values()) == [100, 10_000, 100_000]
