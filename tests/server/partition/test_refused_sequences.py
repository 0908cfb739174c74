"""A partition remembers the lowest refused sequence of each producer's newest epoch, in bounded
memory (R11)."""

from __future__ import annotations

from oncelog_server.partition.refused_sequences import (
    MOST_EARLY,
    MOST_PRODUCERS,
    EarlySequences,
    RefusedSequences,
)


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


def moved(early: EarlySequences, *topics: str | bytes, index: int = 0) -> RefusedSequences:
    sequences = RefusedSequences()
    early.move_to(sequences, topics, index)
    return sequences


def test_the_lowest_sequence_of_the_newest_epoch_moves_to_its_partition() -> None:
    early = EarlySequences()
    for epoch, sequence in ((0, 0), (1, 5), (1, 3), (1, 4), (0, 1)):
        early.refused("t", 0, 7, epoch, sequence)
    early.refused(b"id of t", 0, 8, 0, 2)
    early.refused("t", 1, 7, 1, 9)
    found = moved(early, "t", b"id of t")
    assert (found.lowest(7, 1), found.lowest(8, 0)) == (3, 2)
    assert not moved(early, "t", b"id of t").lowest_by_id
    assert moved(early, "t", index=1).lowest(7, 1) == 9


def test_unknown_topics_take_bounded_memory() -> None:
    early = EarlySequences()
    early.refused("t" * 250, 0, 7, 0, 0)
    assert not moved(early, "t" * 250).lowest_by_id
    for producer_id in range(MOST_EARLY + 1):
        early.refused("t", 0, producer_id, 0, 0)
    found = moved(early, "t")
    assert found.lowest(0, 0) is None
    assert found.lowest(MOST_EARLY, 0) == 0
