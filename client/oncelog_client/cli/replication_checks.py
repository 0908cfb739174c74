"""Checks of the replication factor of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from oncelog_client.cli.cluster_state import ClusterState
from oncelog_client.cli.findings import NOTICE, Row, row_of
from oncelog_client.cli.partition_checks import min_isrs

if TYPE_CHECKING:
    from oncelog_client.admin import Admin

ADD_REPLICAS: Final = (
    "add replicas with Apache Kafka's own kafka-reassign-partitions.sh. New topics get"
    " default.replication.factor"
)


async def single_replicas(admin: Admin, state: ClusterState) -> list[Row]:
    """Topics with a partition of one replica, although the cluster has several brokers. While the
    partition's broker is down, no other can lead the partition, and its disk has the only copy."""
    found = []
    if len(state.racks) > 1:
        found = [name for name, number in _replication_factors(state).items() if number == 1]
    to_do = f"each broker that stops makes its partitions unavailable: {ADD_REPLICAS}"
    return [row_of("topics with one replica", NOTICE, found, to_do)]


async def fewer_than_min_isr(admin: Admin, state: ClusterState) -> list[Row]:
    """Topics with fewer replicas than `min.insync.replicas`. As in Kafka, an acks=all request then
    waits for all replicas, which are fewer copies than the setting says. A single broker cannot
    have more."""
    if len(state.racks) == 1:
        return [row_of(_FEWER, NOTICE, [], "")]
    factors = _replication_factors(state)
    minimums = await min_isrs(admin, set(factors))
    found = [
        f"{name} ({number} of {minimums[name]})"
        for name, number in factors.items()
        if number < minimums.get(name, 1)
    ]
    return [row_of(_FEWER, NOTICE, found, _MIN_ISR_ADVICE)]


_FEWER: Final = "topics with fewer replicas than min ISR"
_MIN_ISR_ADVICE: Final = (
    "acks=all waits for fewer copies than min.insync.replicas says: lower it, or add replicas with"
    " Apache Kafka's own kafka-reassign-partitions.sh"
)


def _replication_factors(state: ClusterState) -> dict[str, int]:
    """Return the smallest number of replicas of each topic's partitions, after the moves in
    progress, in the order of the names."""
    factors: dict[str, int] = {}
    for place, replicas in sorted(state.planned_replicas().items()):
        factors[place.topic] = min(factors.get(place.topic, len(replicas)), len(replicas))
    return factors
