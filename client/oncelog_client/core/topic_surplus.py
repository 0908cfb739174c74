"""The topics of a broker in the order in which a plan moves their replicas to another broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush

# The negative surplus, and the topic.
_Entry = tuple[int, str]


class TopicSurplus:
    """The surplus of topics on one broker over another: the difference of their numbers of
    partitions.

    `count_of` returns the number of a topic's partitions with a replica on a broker. A change of
    this number must be noted, so that no topic is counted again for each move.
    """

    def __init__(self, count_of: Callable[[int, str], int]) -> None:
        self._count_of = count_of
        # By source and target, a heap. It also has entries of an earlier surplus.
        self._heaps: dict[tuple[int, int], list[_Entry]] = {}
        self._pairs: dict[int, list[tuple[int, int]]] = {}
        # By topic, the pairs of brokers between which none of its partitions can move.
        self._stuck: dict[str, set[tuple[int, int]]] = {}

    def stick(self, topic: str, source: int, target: int) -> None:
        """Leave a topic out of `ranked`, because none of its partitions can move, until one of its
        partitions changes."""
        self._stuck.setdefault(topic, set()).add((source, target))

    def changed(self, topic: str, brokers: Iterable[int]) -> None:
        """Note that a partition of a topic has other replicas. The number of the topic's partitions
        on these brokers has changed."""
        for pair in self._stuck.pop(topic, ()):
            heappush(self._heaps[pair], self._entry(topic, *pair))
        for broker in brokers:
            for pair in self._pairs.get(broker, ()):
                heappush(self._heaps[pair], self._entry(topic, *pair))

    def ranked(self, source: int, target: int, topics: Iterable[str]) -> Iterator[str]:
        """Yield the topics on `source`, those with the largest surplus over `target` first.
        `topics` are the present topics on `source`. Only the first call for a pair reads them."""
        heap = self._heap(source, target, topics)
        valid: list[_Entry] = []
        seen: set[str] = set()
        try:
            while heap:
                entry = heappop(heap)
                topic = entry[1]
                if topic in seen or entry != self._entry(topic, source, target):
                    continue
                seen.add(topic)
                valid.append(entry)
                if self._count_of(source, topic):
                    yield topic
        finally:
            for entry in valid:
                if (source, target) not in self._stuck.get(entry[1], ()):
                    heappush(heap, entry)

    def _heap(self, source: int, target: int, topics: Iterable[str]) -> list[_Entry]:
        pair = source, target
        if pair not in self._heaps:
            heap = self._heaps[pair] = [self._entry(topic, *pair) for topic in topics]
            heapify(heap)
            for broker in pair:
                self._pairs.setdefault(broker, []).append(pair)
        return self._heaps[pair]

    def _entry(self, topic: str, source: int, target: int) -> _Entry:
        return self._count_of(target, topic) - self._count_of(source, topic), topic
