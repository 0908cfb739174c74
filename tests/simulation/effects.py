"""The state of a running broker that requests change: logs, transactions, groups and metadata. A
denied request changes none of it (I20)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from oncelog_server.broker import Broker

_ABSENT: Final = object()

# The state by the name of a partition, a transactional id, a group or another part of the broker.
State = Mapping[str, Any]


def state_of(broker: Broker) -> State:
    """Return the state. It only reads memory, so it changes nothing and takes no simulated time."""
    return dict(_parts(broker))


def changed(before: State, after: State) -> list[str]:
    """Return the names of the parts that differ."""
    names = before.keys() | after.keys()
    return sorted(name for name in names if before.get(name, _ABSENT) != after.get(name, _ABSENT))


def _parts(broker: Broker) -> Iterator[tuple[str, Any]]:
    for partition in broker.partitions:
        topic, index = partition.topic_partition
        yield (
            f"log of {topic}-{index}",
            (
                partition.log_start_offset,
                partition.log_end_offset,
                partition.last_stable_offset,
                len(partition.guards),
                len(partition.commit_waiters),
            ),
        )
    for _, transactions in broker.transactions.runtime.shards():
        for name, live in transactions.transactions.items():
            yield (
                f"transaction of {name}",
                (
                    live.metadata,
                    live.pending,
                    live.deadline_ms,
                    frozenset(live.markers_left),
                    len(live.waiting),
                    live.fences,
                ),
            )
    for number, shard in broker.groups.runtime.shards():
        yield f"offsets of shard {number}", shard.table.offsets.snapshot()
        timers = shard.table.timers._timers
        deadlines = {key: timer.deadline_ms for key, timer in timers.items()}
        yield f"deadlines of shard {number}", deadlines
        for group in shard.table.groups.values():
            yield f"group {group.group_id}", _members(group)
    image = broker.metadata.image
    yield (
        "topics",
        {name: (topic.id, len(topic.partitions)) for name, topic in image.topics.items()},
    )
    yield "rules", image.acls


def _members(group: Any) -> object:
    return (
        group.state,
        group.generation_id,
        group.leader_id,
        tuple(group.pending_join_members),
        tuple(group.pending_sync_members),
        {
            name: (
                member.assignment,
                member.awaiting_join is None,
                member.awaiting_sync is None,
            )
            for name, member in group.members.items()
        },
    )
