"""A round of a read benchmark reads the whole topic once or several times, until it has read a
minimum number of bytes."""

from __future__ import annotations

import pytest

from benchmarks.bench import FULL, KB_VALUE, MB
from benchmarks.filled import Filled, passes


@pytest.mark.parametrize(
    ("held", "expected"), [(2_000, 2), (2_100, 2), (1_999, 3), (4_000, 1), (9_000, 1), (100, 40)]
)
def test_a_round_reads_at_least_four_gigabytes(held: int, expected: int) -> None:
    messages = -(-held * MB // KB_VALUE)
    found = passes(FULL.consumed_bytes, messages)
    assert found == expected
    assert Filled("topic", messages, found).gigabytes >= 4
