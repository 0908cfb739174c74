"""The replicas of all partitions on the brokers, while a plan moves them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from oncelog_client.core.topic_surplus import TopicSurplus
from oncelog_client.values import TopicPartition

# The brokers of a partition. The first one is the preferred leader.
Assignment = tuple[int, ...]


class Move(NamedTuple):
    """A change of a partition's replicas. Only `added` copies records."""

    place: TopicPartition
    old: Assignment
    new: Assignment

    @property
    def added(self) -> Assignment:
        return tuple(broker for broker in self.new if broker not in self.old)

    @property
    def moves_leader(self) -> bool:
        """Return True if the partition gets another preferred leader."""
        return self.new[:1] != self.old[:1]


class ReplicaLayout:
    """The replicas of partitions, with the number of replicas and of preferred leaders by broker.

    `racks` has all known brokers; brokers without a rack count as one rack. Only the brokers
    `targets` get replicas. `sizes` are bytes; smaller partitions move first. `old` never changes.
    """

    def __init__(
        self,
        old: Mapping[TopicPartition, Sequence[int]],
        racks: Mapping[int, str | None],
        targets: Iterable[int],
        sizes: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self.old: dict[TopicPartition, Assignment] = {
            place: tuple(old[place]) for place in sorted(old) if old[place]
        }
        self.new = dict(self.old)
        self.targets = sorted(set(targets))
        self._racks = racks
        self._sizes = sizes or {}
        # By broker and topic, the partitions with a replica there. The dict is a set with an order.
        self._on: dict[int, dict[str, dict[TopicPartition, None]]] = {}
        self._surplus = TopicSurplus(self.count_of)
        self._led: dict[int, dict[TopicPartition, None]] = {}
        self.counts: Counter[int] = Counter()
        for place, replicas in self.old.items():
            self._add(place, replicas)

    def _add(self, place: TopicPartition, replicas: Assignment) -> None:
        for broker in replicas:
            self._on.setdefault(broker, {}).setdefault(place.topic, {})[place] = None
            self.counts[broker] += 1
        self._led.setdefault(replicas[0], {})[place] = None

    def assign(self, place: TopicPartition, replicas: Assignment) -> None:
        """Give a partition these replicas."""
        before = self.new[place]
        for broker in before:
            of_topic = self._on[broker][place.topic]
            del of_topic[place]
            if not of_topic:
                del self._on[broker][place.topic]
            self.counts[broker] -= 1
        del self._led[before[0]][place]
        self.new[place] = replicas
        self._add(place, replicas)
        self._surplus.changed(place.topic, {*before} ^ {*replicas})

    def replace(self, place: TopicPartition, source: int, target: int) -> None:
        """Move a replica from one broker to another. The replica keeps its place in the order."""
        self.assign(place, replaced(self.new[place], source, target))

    def lead(self, place: TopicPartition, broker: int) -> None:
        """Make one of a partition's replicas the preferred leader."""
        others = (replica for replica in self.new[place] if replica != broker)
        self.assign(place, (broker, *others))

    def on(self, broker: int) -> Iterator[TopicPartition]:
        """Yield the partitions with a replica on a broker."""
        for of_topic in self._on.get(broker, {}).values():
            yield from of_topic

    def led_by(self, broker: int) -> Collection[TopicPartition]:
        """Return the partitions with this preferred leader."""
        return self._led.get(broker, {})

    def leads(self, broker: int) -> int:
        """Return the number of partitions with this preferred leader."""
        return len(self.led_by(broker))

    def size(self, place: TopicPartition) -> int:
        return self._sizes.get(place, 0)

    def count_of(self, broker: int, topic: str) -> int:
        """Return the number of a topic's partitions with a replica on a broker."""
        return len(self._on.get(broker, {}).get(topic, {}))

    def spread(self, replicas: Iterable[int]) -> int:
        """Return the number of racks with a replica."""
        return len({self.rack(broker) for broker in replicas})

    def rack(self, broker: int) -> str | None:
        return self._racks.get(broker)

    def may_replace(self, place: TopicPartition, source: int, target: int) -> bool:
        """Return True if a replica can move from `source` to `target`: `target` has no replica of
        the partition, and the partition stays in as many racks as before."""
        replicas = self.new[place]
        return target not in replicas and (
            self.rack(source) == self.rack(target)
            or self.spread(replaced(replicas, source, target)) >= self.spread(replicas)
        )

    def movable(
        self, source: int, target: int, without: Collection[TopicPartition] = ()
    ) -> TopicPartition | None:
        """Return the partition that is the best to move from `source` to `target`, or None if no
        partition can move. The topic with the largest surplus on `source` over `target` is
        preferred, so that each topic is spread too. In this topic, the smallest partition is
        preferred."""
        topics = self._on.get(source, {})
        for topic in self._surplus.ranked(source, target, topics):
            able = [place for place in topics[topic] if self.may_replace(place, source, target)]
            if not able:
                self._surplus.stick(topic, source, target)
            elif found := [place for place in able if place not in without]:
                return min(found, key=lambda place: (self.size(place), place))
        return None

    def moves(self) -> list[Move]:
        """Return the changed partitions in their order."""
        return [
            Move(place, old, self.new[place])
            for place, old in self.old.items()
            if old != self.new[place]
        ]


def replaced(replicas: Assignment, source: int, target: int) -> Assignment:
    """Return the replicas with `target` in place of `source`."""
    return tuple(target if broker == source else broker for broker in replicas)
