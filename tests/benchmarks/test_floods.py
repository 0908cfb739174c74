"""The flood of clients without authentication floods, and its figures are computed correctly."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmarks import machine
from benchmarks.flood import Load
from benchmarks.floods import CONTROL, FLOOD, NOTHING, Part, Priorities, Result, run

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or len(machine.all_cores()) < 2, reason="needs Linux and two cores"
)

# On a busy computer, processes with a lower priority would not run.
_USUAL = machine.Priority(os.SCHED_OTHER)


def test_a_round_floods_each_broker_in_turn(tmp_path: Path) -> None:
    """The times of so short a round mean nothing."""
    load = Load(silent=20, trickling=20, handshakes_per_s=20)
    result = run(tmp_path, 1, 1.0, load, Priorities(_USUAL, _USUAL), print)
    ((nothing, control, flood),) = result.rounds
    assert [nothing.flooded, control.flooded, flood.flooded] == [NOTHING, CONTROL, FLOOD]
    assert nothing.counts == {}
    for flooded in (control, flood):
        assert flooded.messages > 0
        assert flooded.counts["completed"] > 0
        assert "failed" not in flooded.counts


def _part(flooded: str, p99_ms: float, *, completed: int = 200, stall_ms: float = 1.0) -> Part:
    counts = {} if flooded == NOTHING else {"completed": completed}
    return Part(flooded, 200, 0.1, p99_ms, 1.0, stall_ms, 5.0, 0.1, 0.0, 1.0, counts)


def _result(*p99s_ms: float, completed: int = 200, stall_ms: float = 1.0) -> Result:
    """Return a result with a round for each p99 under the flood. The p99 of the controls is 1
    ms."""
    return Result(
        [
            [
                _part(NOTHING, 0.5),
                _part(CONTROL, 1.0),
                _part(FLOOD, p99_ms, completed=completed, stall_ms=stall_ms),
            ]
            for p99_ms in p99s_ms
        ],
        200,
    )


def test_the_median_of_the_ratios_decides() -> None:
    assert _result(1.5, 1.9, 9.0).ratio == 1.9
    assert _result(1.5, 1.9, 9.0).misses == []
    assert _result(1.5, 2.1, 2.2).misses == ["ratio: 2.1, must be at most 2"]


def test_a_single_stall_and_a_flood_that_was_none_are_misses() -> None:
    assert _result(1.0, stall_ms=51.0).misses == ["stall, ms: 51.0, must be at most 50"]
    (miss,) = _result(1.0, completed=100).misses
    assert miss == "handshakes a second: 200, 100; the computer is too busy"
