"""The brokers of a cluster, stopped ones included, with their partitions."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from oncelog_client.cli.cluster_state import partitions_of
from oncelog_client.cli.output import Column
from oncelog_client.errors import KafkaError
from oncelog_client.values import Node

if TYPE_CHECKING:
    from oncelog_client.admin import Admin, BrokerCondition

COLUMNS: Final = (
    Column("Broker", "count"),
    Column("Host", "id"),
    Column("Port", "count"),
    Column("Rack", "id", rank=1),
    Column("State"),
    Column("Leads", "count"),
    Column("Replicas", "count"),
    Column("Out of sync", "count"),
    Column("Store silence ms", "duration", rank=2),
    Column("Version", "id", rank=3),
)
ALIVE: Final = "alive"
FENCED: Final = "fenced"
# The broker responds, and leads nothing: its registration may have ended.
SUSPENDED: Final = "suspended"
UNREACHABLE: Final = "no response"


class BrokerRow(NamedTuple):
    """A broker. `leads`, `replicas` and `out_of_sync` are numbers of partitions. A broker is fenced
    if it has registered, and is not alive. `store_silence_ms` is the time for which the metadata
    store has not responded to it, None while it responds."""

    broker: int
    host: str | None
    port: int | None
    rack: str | None
    state: str
    leads: int
    replicas: int
    out_of_sync: int
    store_silence_ms: int | None
    version: str | None


async def broker_rows(admin: Admin) -> list[BrokerRow]:
    """Return the brokers by their ids."""
    described = await admin.describe_cluster(include_fenced_brokers=True)
    topics = await admin.list_topics(list_internal=True)
    partitions = (await partitions_of(admin, topics)).values()
    conditions = await conditions_of(admin, [node.node_id for node in described.nodes])
    leads: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    in_sync: Counter[int] = Counter()
    for partition in partitions:
        if partition.leader is not None:
            leads[partition.leader] += 1
        replicas.update(partition.replicas)
        in_sync.update(partition.in_sync_replicas)

    def row(node: Node, state: str, silence_ms: int | None = None) -> BrokerRow:
        found = node.node_id
        lacking = replicas[found] - in_sync[found]
        counts = leads[found], replicas[found], lacking
        return BrokerRow(*node, state, *counts, silence_ms, described.versions.get(found))

    rows = [row(node, *_state(conditions[node.node_id])) for node in described.nodes]
    rows += [row(node, FENCED) for node in described.fenced]
    return sorted(rows)


async def conditions_of(
    admin: Admin, brokers: list[int]
) -> dict[int, BrokerCondition | KafkaError]:
    """Return the condition that each broker reports, or the error of its request."""

    async def condition(broker: int) -> BrokerCondition | KafkaError:
        try:
            return (await admin.describe_conditions([broker]))[broker]
        except KafkaError as error:
            return error

    return dict(zip(brokers, await asyncio.gather(*map(condition, brokers)), strict=True))


def _state(condition: BrokerCondition | KafkaError) -> tuple[str, int | None]:
    if isinstance(condition, KafkaError):
        return UNREACHABLE, None
    state = SUSPENDED if condition.is_suspended else ALIVE
    return state, condition.store_silence_ms or None
