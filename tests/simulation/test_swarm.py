"""Each test run simulates a few worlds (a broker and clients with faults, all drawn from one seed).
`make simulate SEEDS=n` simulates more."""

from __future__ import annotations

import pytest

from tests.simulation.report import failure_lines
from tests.simulation.run import FEW_COMMITS, run_seed

WORLDS = 20
EACH = 10


@pytest.mark.parametrize("first", range(0, WORLDS, EACH))
def test_nothing_is_lost_torn_or_doubled(first: int) -> None:
    committed, inflicted = 0, 0
    for seed in range(first, first + EACH):
        verdict = run_seed(seed)
        assert not verdict.failed, "\n".join(failure_lines(verdict))
        committed += verdict.committed
        inflicted += verdict.inflicted.total()
    # Minimum numbers that these worlds reach with any seeds.
    assert committed >= EACH * FEW_COMMITS
    assert inflicted >= EACH
