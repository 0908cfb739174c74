"""The brokers of a cluster, stopped ones included, with their partitions."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from oncelog_client.admin import Admin
from oncelog_client.cli.output import Column
from oncelog_client.values import Node

COLUMNS: Final = (
    Column("Broker", "count"),
    Column("Host", "id"),
    Column("Port", "count"),
    Column("Rack", "id", rank=1),
    Column("State"),
    Column("Leads", "count"),
    Column("Replicas", "count"),
    Column("Out of sync", "count"),
)
ALIVE: Final = "alive"
FENCED: Final = "fenced"


class BrokerRow(NamedTuple):
    """A broker. `leads`, `replicas` and `out_of_sync` are numbers of partitions. A broker is fenced
    if it has registered, and is not alive."""

    broker: int
    host: str | None
    port: int | None
    rack: str | None
    state: str
    leads: int
    replicas: int
    out_of_sync: int


async def broker_rows(admin: Admin) -> list[BrokerRow]:
    """Return the brokers by their ids."""
    described = await admin.describe_cluster(include_fenced_brokers=True)
    topics = await admin.list_topics(list_internal=True)
    partitions = [
        partition
        for topic in (await admin.describe_topics(topics) if topics else {}).values()
        for partition in topic.partitions
    ]
    leads: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    in_sync: Counter[int] = Counter()
    for partition in partitions:
        if partition.leader is not None:
            leads[partition.leader] += 1
        replicas.update(partition.replicas)
        in_sync.update(partition.in_sync_replicas)

    def row(node: Node, state: str) -> BrokerRow:
        found = node.node_id
        lacking = replicas[found] - in_sync[found]
        return BrokerRow(*node, state, leads[found], replicas[found], lacking)

    rows = [row(node, ALIVE) for node in described.nodes]
    rows += [row(node, FENCED) for node in described.fenced]
    return sorted(rows)
