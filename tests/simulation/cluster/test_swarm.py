"""Each test run simulates a few clusters (brokers, an etcd and clients with faults, all drawn from
one seed). `make simulate CLUSTER=1 SEEDS=n` simulates more."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.run import run_seed
from tests.simulation.kinds import CLUSTER
from tests.simulation.report import failure_lines
from tests.simulation.run import FEW_COMMITS

WORLDS = 20
EACH = 5


@pytest.mark.parametrize("first", range(0, WORLDS, EACH))
def test_nothing_is_lost_and_no_replicas_differ(first: int) -> None:
    committed, inflicted = 0, 0
    for seed in range(first, first + EACH):
        verdict = run_seed(seed)
        assert not verdict.failed, "\n".join(failure_lines(verdict, option=CLUSTER.option))
        committed += verdict.committed
        inflicted += verdict.inflicted.total()
    # Minimum numbers that these worlds reach with any seeds.
    assert committed >= EACH * FEW_COMMITS
    assert inflicted >= EACH
