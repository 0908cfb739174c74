"""The checker finds a missing copy and a second copy. It also finds copies of records that are not
below the committed offset, or do not exist."""

from __future__ import annotations

import pytest

from tests.simulation.checking.copies import check_copies

INPUTS = {"a-0": [0, 1, 3], "a-1": [0]}
SOUND = [("a-0", 0), ("a-0", 1)]


def test_i13_every_record_below_the_committed_offset_is_copied_once() -> None:
    assert check_copies(INPUTS, SOUND, {"a-0": 3}) == []


@pytest.mark.parametrize(
    "outputs",
    [
        pytest.param(SOUND[:1], id="lost"),
        pytest.param([*SOUND, ("a-0", 1)], id="twice"),
        pytest.param([*SOUND, ("a-0", 3)], id="not committed"),
        pytest.param([*SOUND, ("a-0", 2)], id="of nothing"),
    ],
)
def test_i13_a_missing_duplicate_or_unexpected_copy_is_found(
    outputs: list[tuple[str, int]],
) -> None:
    (violation,) = check_copies(INPUTS, outputs, {"a-0": 3})
    assert violation.invariant == "I13"
