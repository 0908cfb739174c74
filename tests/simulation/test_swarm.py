"""A few worlds in each run of the tests; `make simulate SEEDS=n` for more."""

from __future__ import annotations

import pytest

from tests.simulation.options import LEAST_TRANSACTIONS
from tests.simulation.report import Figures, failure_lines
from tests.simulation.run import run_seed
from tests.simulation.workloads.append import Append
from tests.simulation.workloads.client import Client

WORLDS = 60
EACH = 10


@pytest.mark.parametrize("first", range(0, WORLDS, EACH))
def test_nothing_is_lost_torn_or_doubled(first: int) -> None:
    for seed in range(first, first + EACH):
        verdict = run_seed(seed)
        assert not verdict.failed, "\n".join(failure_lines(verdict))


def test_a_world_of_one_writer_is_as_large_as_promised() -> None:
    verdict = run_seed(620)
    assert "'append': 1, 'reader': 1}, transactions=12" in verdict.options
    assert not verdict.failed, "\n".join(failure_lines(verdict))
    assert verdict.transactions >= LEAST_TRANSACTIONS


def test_a_world_that_is_too_small_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Append, "has_done_enough", Client.has_done_enough)
    verdict = run_seed(620)
    assert any("transactions were begun" in violation for violation in verdict.violations)
    figures = Figures()
    figures.add(verdict)
    assert any(f", {verdict.transactions} at least" in line for line in figures.lines())


@pytest.mark.parametrize(
    ("seed", "without"), [(5148, (2, 3, 4, 5)), (8801, ())], ids=["late-frame", "resigned"]
)
def test_worlds_that_the_harness_alone_has_failed(seed: int, without: tuple[int, ...]) -> None:
    """A frame of before KIP-890 part 2 that comes when a power loss has taken the one before it;
    a coordinator that was looked at when it had resigned, its last commits still on their way."""
    verdict = run_seed(seed, without=without)
    assert not verdict.failed, "\n".join(failure_lines(verdict))
