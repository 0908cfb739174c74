"""A partition remembers the lowest refused sequence of each producer's newest epoch, in bounded
memory (R11)."""

from __future__ import annotations

from oncelog_server.partition.refused_sequences import MOST_PRODUCERS, RefusedSequences


def test_the_lowest_refused_sequence_of_the_newest_epoch_is_remembered() -> None:
    refused = RefusedSequences()
    assert refused.lowest(1, 0) is None
    refused.refused(1, 0, 3)
    refused.refused(1, 0, 1)
    refused.refused(1, 0, 2)
    assert refused.lowest(1, 0) == 1
    refused.refused(1, 1, 4)
    refused.refused(1, 0, 0)
    assert refused.lowest(1, 0) is None
    assert refused.lowest(1, 1) == 4
    assert refused.lowest(2, 1) is None


def test_after_forget_the_producer_has_no_refused_sequence() -> None:
    refused = RefusedSequences()
    refused.refused(1, 0, 0)
    refused.forget(1)
    refused.forget(1)
    assert refused.lowest(1, 0) is None


def test_unknown_producers_take_bounded_memory() -> None:
    refused = RefusedSequences()
    for producer_id in range(MOST_PRODUCERS + 1):
        refused.refused(producer_id, 0, 0)
    assert len(refused.lowest_by_id) == MOST_PRODUCERS
    assert refused.lowest(0, 0) is None
    assert refused.lowest(MOST_PRODUCERS, 0) == 0
