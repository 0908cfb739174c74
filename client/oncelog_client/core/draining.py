"""A plan that takes a broker out of use: all its replicas move to other brokers, or only the
leaders."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from oncelog_client.core.replica_layout import ReplicaLayout, replaced
from oncelog_client.values import TopicPartition


class Obstacles(NamedTuple):
    """The partitions that a plan cannot move, and the partitions that it moves into fewer racks
    than before."""

    stuck: tuple[TopicPartition, ...]
    fewer_racks: tuple[TopicPartition, ...] = ()


def drain_replicas(layout: ReplicaLayout, broker: int) -> Obstacles:
    """Move each replica of the broker to another broker. The partition stays in as many racks as
    possible. Out of several possible brokers, the broker with the fewest replicas gets it.

    In a partition that the broker leads, the replica that leads the fewest partitions becomes the
    preferred leader. `layout` must not have the broker as a target.
    """
    stuck, fewer_racks = [], []
    for place in sorted(layout.on(broker)):
        replicas = layout.new[place]
        free = [other for other in layout.targets if other not in replicas]
        if not free:
            stuck.append(place)
            continue
        before = layout.spread(replicas)

        def cost(
            other: int, replicas: tuple[int, ...] = replicas, topic: str = place.topic
        ) -> tuple[int, int, int, int]:
            spread = layout.spread(replaced(replicas, broker, other))
            return -spread, layout.counts[other], layout.count_of(other, topic), other

        was_led = replicas[0] == broker
        layout.replace(place, broker, min(free, key=cost))
        if layout.spread(layout.new[place]) < before:
            fewer_racks.append(place)
        if was_led:
            _lead_by_least(layout, place, layout.new[place])
    return Obstacles(tuple(stuck), tuple(fewer_racks))


def drain_leaders(
    layout: ReplicaLayout,
    broker: int,
    leaders: Mapping[TopicPartition, int | None],
    in_sync: Mapping[TopicPartition, Collection[int]],
) -> tuple[Obstacles, list[TopicPartition]]:
    """Give the leadership of the broker's partitions to other replicas in sync. The broker becomes
    the last replica of these partitions, so that it leads none of them again.

    Return the partitions without another replica in sync, and the partitions that need an election.
    """
    stuck, to_elect = [], []
    for place in sorted(layout.on(broker)):
        replicas = layout.new[place]
        if broker not in (leaders.get(place), replicas[0]):
            continue
        able = [other for other in replicas if other in layout.targets and other in in_sync[place]]
        if not able:
            stuck.append(place)
            continue
        to_elect.append(place)
        layout.assign(place, (*(other for other in replicas if other != broker), broker))
        _lead_by_least(layout, place, able)
    return Obstacles(tuple(stuck)), to_elect


def _lead_by_least(layout: ReplicaLayout, place: TopicPartition, able: Collection[int]) -> None:
    """Choose the preferred leader out of the replicas `able`: the replica that leads the fewest
    partitions."""
    present = layout.new[place][0]

    def leads(broker: int) -> tuple[int, bool, int]:
        return layout.leads(broker) - (broker == present), broker != present, broker

    allowed = [broker for broker in able if broker in layout.targets]
    if allowed:
        layout.lead(place, min(allowed, key=leads))
