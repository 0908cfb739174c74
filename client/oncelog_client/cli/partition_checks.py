"""Checks of partitions with a leader: enough replicas in sync, all replicas in sync."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from oncelog_client.cli.cluster_state import ClusterState, replicas_on
from oncelog_client.cli.findings import PROBLEM, Row, row_of
from oncelog_client.cli.offline_partitions import OFFLINE, sentence
from oncelog_client.cli.quantities import count_text, duration_text
from oncelog_client.cli.topic_settings import topic_settings
from oncelog_client.values import TopicPartition

if TYPE_CHECKING:
    from oncelog_client.admin import Admin

MIN_ISR: Final = "min.insync.replicas"


async def below_min_isr(admin: Admin, state: ClusterState) -> list[Row]:
    """A partition with a leader and fewer replicas in sync than `min.insync.replicas` takes no
    record with acks=all. Replicas that a move adds count too, as for the broker."""
    short = [
        place
        for place, info in state.partitions.items()
        if info.leader is not None and len(info.in_sync_replicas) < len(info.replicas)
    ]
    minimums = await min_isrs(admin, {place.topic for place in short})
    found = []
    for place in short:
        info = state.partitions[place]
        needed = min(minimums.get(place.topic, 1), len(info.replicas))
        if len(info.in_sync_replicas) < needed:
            found.append(f"{place} ({len(info.in_sync_replicas)} of {needed} in sync)")
    to_do = "producers with acks=all wait: see which brokers the under-replicated partitions name"
    return [row_of("partitions below min ISR", PROBLEM, found, to_do)]


def lacking(state: ClusterState) -> list[TopicPartition]:
    """Return the partitions with a leader, and with replicas that are not in sync. Replicas that a
    move adds do not count."""
    found = []
    for place, info in state.partitions.items():
        move = state.moving.get(place)
        adding = () if move is None else move.adding_replicas
        if info.leader is not None and set(info.replicas) - {*adding, *info.in_sync_replicas}:
            found.append(place)
    return found


async def min_isrs(admin: Admin, topics: set[str]) -> dict[str, int]:
    """Return `min.insync.replicas` of the topics. Topics that are deleted meanwhile are left
    out."""
    described = await topic_settings(admin, topics, [MIN_ISR])
    return {
        topic: int(entries[MIN_ISR].value or 1) if MIN_ISR in entries else 1
        for topic, entries in described.items()
    }


async def under_replicated(admin: Admin, state: ClusterState) -> list[Row]:
    """Each partition with the brokers that are not in sync, and how long and how far they are
    behind, as far as the brokers report it."""
    short = lacking(state)
    replicas = await replicas_on(admin, state.alive) if short else {}
    found = []
    has_offline = False
    for place in short:
        info = state.partitions[place]
        leader = replicas.get((info.leader or 0, place))
        times = {} if leader is None else leader.out_of_sync_ms
        missing = [broker for broker in info.replicas if broker not in info.in_sync_replicas]
        texts = []
        for broker in missing:
            behind = replicas.get((broker, place))
            if broker in state.alive and broker in info.offline_replicas:
                details = ["its replica is offline"]
                has_offline = True
            else:
                details = [_behind(broker, state, None if behind is None else behind.offset_lag)]
            if broker in times:
                details.append(f"for {duration_text(times[broker])}")
            texts.append(f"broker {broker} ({' '.join(details)})")
        found.append(f"{place} lacks {', '.join(texts)}")
    to_do = "start stopped brokers. If one is alive and does not catch up, see its log and disk"
    if has_offline:
        to_do += f". {sentence(OFFLINE)}"
    return [row_of("under-replicated partitions", PROBLEM, found, to_do)]


def _behind(broker: int, state: ClusterState, lag: int | None) -> str:
    if broker not in state.alive:
        return "not alive"
    if lag is None or lag < 0:
        return "has not fetched yet"
    return f"{count_text(lag, 'record')} behind"
