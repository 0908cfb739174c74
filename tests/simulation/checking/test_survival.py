"""The checker finds committed batches that a crash removed or changed."""

from __future__ import annotations

from tests.simulation.checking.handmade import Hand
from tests.simulation.checking.survival import check_survival


def of(*values: bytes) -> Hand:
    hand = Hand()
    for sequence, value in enumerate(values):
        hand.data("a-0", (7, 0), sequence, value)
    return hand


def test_i9_committed_batches_are_there_after_a_crash() -> None:
    before = of(b"x", b"y").partitions()
    assert check_survival(before, of(b"x", b"y", b"z").partitions()) == []
    for after in (of(b"x"), of(b"x", b"z"), Hand()):
        assert next(v.invariant for v in check_survival(before, after.partitions())) == "I9"


def test_i9_what_was_not_committed_may_be_gone() -> None:
    before = of(b"x", b"y").partitions()
    before["a", 0].high_watermark = 1
    assert check_survival(before, of(b"x").partitions()) == []
