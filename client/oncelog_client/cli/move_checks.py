"""Checks of preferred leaders, reassignments and their throttles."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from oncelog_client.cli.cluster_state import ClusterState, replicas_on
from oncelog_client.cli.findings import NOTICE, PROBLEM, Row, row_of
from oncelog_client.cli.topic_settings import topic_settings
from oncelog_client.core.move_throttles import RATES, REPLICAS, throttles_all
from oncelog_client.values import TopicPartition

if TYPE_CHECKING:
    from oncelog_client.admin import Admin

# A move that copies nothing in this time counts as stalled.
STALLED_S: Final = 3.0


async def leaders_elsewhere(admin: Admin, state: ClusterState) -> list[Row]:
    """Partitions with another leader than their first replica, although the first replica is in
    sync."""
    found = [
        f"{place} (broker {info.leader} for {info.replicas[0]})"
        for place, info in state.partitions.items()
        if info.leader not in (None, info.replicas[0])
        and info.replicas[0] in info.in_sync_replicas
        and place not in state.moving
    ]
    to_do = "the controller elects them within minutes, `oncelog cluster rebalance` at once"
    return [row_of("leaders not preferred", NOTICE, found, to_do)]


async def stalled_moves(admin: Admin, state: ClusterState) -> list[Row]:
    """Moves with a new replica on a broker that is not alive or cannot use its log, and moves that
    copy nothing for STALLED_S."""
    added = {
        (place, broker)
        for place, move in state.moving.items()
        for broker in move.adding_replicas
        if not _is_in_sync(state, place, broker)
    }
    found = {
        place: f"{place} (broker {broker} is not alive)"
        for place, broker in added
        if broker not in state.alive
    }
    found |= {
        place: f"{place} (its replica on broker {broker} is offline)"
        for place, broker in added
        if _is_offline(state, place, broker)
    }
    waiting = {(place, broker) for place, broker in added if place not in found}
    if waiting:
        before = await replicas_on(admin, state.alive)
        await asyncio.sleep(STALLED_S)
        after = await replicas_on(admin, state.alive)
        moving = await admin.list_partition_reassignments()
        for place, broker in waiting:
            key = broker, place
            if place in moving and before.get(key) == after.get(key):
                found[place] = f"{place} (broker {broker} gets no records)"
    to_do = (
        "start the broker, see its log if the replica is offline, raise the throttle (oncelog"
        " config --describe --broker ID), or cancel: oncelog cluster rebalance --cancel"
    )
    return [row_of("stalled moves", PROBLEM, [found[place] for place in sorted(found)], to_do)]


def _is_offline(state: ClusterState, place: TopicPartition, broker: int) -> bool:
    """Return True if the broker is alive and cannot use its log of the partition."""
    info = state.partitions.get(place)
    return info is not None and broker in state.alive and broker in info.offline_replicas


def _is_in_sync(state: ClusterState, place: TopicPartition, broker: int) -> bool:
    """Return True if the replica is in sync. Return False for a topic that the user may not
    describe."""
    info = state.partitions.get(place)
    return info is not None and broker in info.in_sync_replicas


async def leftover_throttles(admin: Admin, state: ClusterState) -> list[Row]:
    """Throttles of moves, although nothing moves. They would slow the next broker that catches
    up."""
    if state.moving:
        return [row_of("throttles left over", NOTICE, [], "")]
    brokers, topics = await _throttled(admin, state)
    to_do = (
        f"oncelog config --alter --broker ID --delete-config {','.join(RATES)}; the same for topics"
        f" with --topic NAME and {','.join(REPLICAS)}"
    )
    return [row_of("throttles left over", NOTICE, [*brokers, *topics], to_do)]


async def _throttled(admin: Admin, state: ClusterState) -> tuple[list[str], list[str]]:
    """Return texts for the brokers with rates of their own, and for the topics with throttled
    replicas. The default rates of all brokers, and `*` for all replicas of a topic, are left out:
    an operator has set them on purpose."""
    from oncelog_client.admin import ConfigResource, ConfigSource, ResourceType

    brokers = [ConfigResource(ResourceType.BROKER, str(broker)) for broker in sorted(state.alive)]
    of_brokers = [
        f"broker {resource.name}: {name}={entries[name].value}"
        for resource, entries in (await admin.describe_configs(brokers, names=RATES)).items()
        for name in RATES
        if name in entries and entries[name].source is ConfigSource.DYNAMIC_BROKER_CONFIG
    ]
    topics = {place.topic for place in state.partitions}
    of_topics = [
        f"topic {topic}"
        for topic, entries in (await topic_settings(admin, topics, REPLICAS)).items()
        if any(entry.value and not throttles_all(entry.value) for entry in entries.values())
    ]
    return of_brokers, of_topics
