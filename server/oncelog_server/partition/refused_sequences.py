"""Remember the lowest refused sequence of each producer without state in a partition (KIP-890).

A partition accepts any first sequence of an unknown producer. The first of several pipelined
batches may be refused with a retriable error (the coordinator was not ready, the disk was full).
Without the remembered sequence, the partition would then append the second batch as the producer's
first batch, and every retry of the first batch would be out of order. For this reason Kafka's
VerificationStateEntry keeps the lowest sequence, but only for transactions. This module keeps it
for every idempotent producer, also for partitions that are not open yet: a client may know a new
leader before the leader does, and the first of its batches is then refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

MOST_PRODUCERS: Final = 1_000
MOST_EARLY: Final = 1_000
# No topic has a longer name (`cluster/topic_names.py`).
LONGEST_NAME: Final = 249

# A topic's name, or its id in a request with topic ids (Produce v13).
TopicKey = str | bytes


class _Lowest(NamedTuple):
    producer_epoch: int
    sequence: int


class RefusedSequences:
    """The lowest refused sequences of at most MOST_PRODUCERS producers. The oldest producer is
    evicted first, so a client that invents producer ids cannot fill the memory."""

    __slots__ = ("lowest_by_id",)

    def __init__(self) -> None:
        self.lowest_by_id: dict[int, _Lowest] = {}

    def refused(self, producer_id: int, producer_epoch: int, sequence: int) -> None:
        known = self.lowest_by_id.get(producer_id)
        if known is None:
            if len(self.lowest_by_id) == MOST_PRODUCERS:
                del self.lowest_by_id[next(iter(self.lowest_by_id))]
        elif known.producer_epoch > producer_epoch:
            return
        elif known.producer_epoch == producer_epoch:
            sequence = min(sequence, known.sequence)
        self.lowest_by_id[producer_id] = _Lowest(producer_epoch, sequence)

    def lowest(self, producer_id: int, producer_epoch: int) -> int | None:
        """Return the lowest refused sequence of this producer epoch. Return None if no sequence was
        refused."""
        known = self.lowest_by_id.get(producer_id)
        if known is None or known.producer_epoch != producer_epoch:
            return None
        return known.sequence

    def forget(self, producer_id: int) -> None:
        """Forget a producer, because its transaction has ended or the refused batch was retried."""
        self.lowest_by_id.pop(producer_id, None)


class EarlySequences:
    """The lowest refused sequences for partitions that are not open: at most MOST_EARLY batches of
    all producers and partitions. The oldest one is evicted first."""

    __slots__ = ("_lowest",)

    def __init__(self) -> None:
        self._lowest: dict[tuple[TopicKey, int, int], _Lowest] = {}

    def refused(
        self, topic: TopicKey, index: int, producer_id: int, producer_epoch: int, sequence: int
    ) -> None:
        if len(topic) > LONGEST_NAME:
            return  # no topic has such a long name
        key = topic, index, producer_id
        known = self._lowest.get(key)
        if known is None and len(self._lowest) == MOST_EARLY:
            del self._lowest[next(iter(self._lowest))]
        refused = _Lowest(producer_epoch, sequence)
        # A higher epoch replaces a lower one, as in RefusedSequences.
        if known is None or (-producer_epoch, sequence) < (-known.producer_epoch, known.sequence):
            self._lowest[key] = refused

    def move_to(self, sequences: RefusedSequences, topics: Iterable[TopicKey], index: int) -> None:
        """Move the entries of a partition that was opened. `topics` are its topic's name and id."""
        if not self._lowest:
            return
        wanted = set(topics)
        for topic, number, producer_id in list(self._lowest):
            if number == index and topic in wanted:
                found = self._lowest.pop((topic, number, producer_id))
                sequences.refused(producer_id, found.producer_epoch, found.sequence)
