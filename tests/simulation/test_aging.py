"""Simulated clusters (worlds) with transactional ids that have few epochs left.

`python -m tests.simulation --seeds n --first 1000000` runs more of them."""

from __future__ import annotations

from collections import Counter

from tests.simulation.aging import AGED_FROM
from tests.simulation.report import failure_lines
from tests.simulation.run import run_seed

WORLDS = 4
# Maximum number of worlds that may be needed until producer ids have rotated in both ways.
AT_MOST = 40
ROTATIONS = {"producer id rotated at a decision", "producer id rotated by InitProducerId"}


def test_nothing_is_lost_torn_or_doubled_while_producer_ids_rotate() -> None:
    met: Counter[str] = Counter()
    for number in range(AT_MOST):
        verdict = run_seed(AGED_FROM + number)
        assert not verdict.failed, "\n".join(failure_lines(verdict))
        met += verdict.met
        if number + 1 >= WORLDS and met.keys() >= ROTATIONS:
            return
    raise AssertionError(f"never met: {ROTATIONS - met.keys()}")
