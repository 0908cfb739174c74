"""The throttle of partitions that move (KIP-73), as Kafka's kafka-reassign-partitions sets and
removes it: a rate for each broker, and for each topic the replicas that send and get records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from oncelog_client.core.replica_layout import Move

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
REPLICAS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
_ALL: Final = "*"


class TopicThrottle(NamedTuple):
    """The values of the settings of a topic: `partition:broker`, joined by commas."""

    leader_replicas: str
    follower_replicas: str


def topic_throttles(moves: Iterable[Move]) -> dict[str, TopicThrottle]:
    """Return the throttled replicas of each topic. All present replicas of a partition may send
    records, and the added replicas get them. A move that adds no replica needs no throttle."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for move in moves:
        if move.added:
            topic, number = move.place
            leaders.setdefault(topic, []).extend(f"{number}:{broker}" for broker in move.old)
            followers.setdefault(topic, []).extend(f"{number}:{broker}" for broker in move.added)
    return {
        topic: TopicThrottle(",".join(rows), ",".join(followers[topic]))
        for topic, rows in leaders.items()
    }


def brokers_of(moves: Iterable[Move]) -> list[int]:
    """Return the brokers that send or get records of these moves."""
    return sorted({broker for move in moves if move.added for broker in (*move.old, *move.added)})


def throttles_all(replicas: str) -> bool:
    """Return True for throttled replicas `*`: all replicas of a topic. Only an operator sets this
    value."""
    return replicas == _ALL
