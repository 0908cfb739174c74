"""The partitions that the filters of kafka-topics show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple


class Replication(NamedTuple):
    """The replicas of a partition. `leader` is None without a leader. `minimum` is the topic's
    min.insync.replicas. While the partition moves, `replicas` is the number of replicas after the
    move."""

    leader: int | None
    in_sync: int
    replicas: int
    minimum: int


# filter -> whether it shows a partition
FILTERS: Final[dict[str, Callable[[Replication], bool]]] = {
    "under-replicated-partitions": lambda found: found.in_sync < found.replicas,
    "under-min-isr-partitions": lambda found: found.leader is None or found.in_sync < found.minimum,
    "at-min-isr-partitions": lambda found: found.in_sync == found.minimum,
    "unavailable-partitions": lambda found: found.leader is None,
}
