"""`oncelog cluster`: the brokers of the cluster, and its problems."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

from oncelog_client.admin import Admin
from oncelog_client.cli.brokers import COLUMNS, broker_rows
from oncelog_client.cli.commands import ToolGroup
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.disks import disks
from oncelog_client.cli.hanging import open_transactions
from oncelog_client.cli.options import connection_options, output_option
from oncelog_client.cli.output import Column, note, say, show, show_json
from oncelog_client.values import PartitionInfo, TopicPartition

BROKER_COLUMNS: Final = (
    Column("Broker", "count"),
    Column("Host", "id"),
    Column("Port", "count"),
    Column("Rack", "id", rank=1),
    Column("Controller"),
)
HEALTH_COLUMNS: Final = (
    Column("Check"),
    Column("State"),
    Column("Count", "count", rank=1),
    Column("What"),
)
OK: Final = "ok"
NOTICE: Final = "notice"
PROBLEM: Final = "problem"
# Maximum number of names that a row shows, except in JSON.
NAMED: Final = 5


class Extension(NamedTuple):
    """A verb in another package."""

    name: str
    module: str


INIT: Final = Extension("init", "oncelog_server.migration.cluster_command")


class Row(NamedTuple):
    """The result of a check: the number of cases of a problem, and the names of the cases."""

    check: str
    state: str
    number: int
    what: list[str]


class ClusterGroup(ToolGroup):
    """The verbs of this module, and INIT, which needs the broker's package."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), INIT.name]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name != INIT.name:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(INIT.module), INIT.name)
        return command


@click.group(cls=ClusterGroup, examples=["cluster info", "cluster health"])
@connection_options
@output_option
def cluster(**_: object) -> None:
    """Show the brokers of a cluster and its health, forget brokers that will not come back."""


@cluster.command(examples=["cluster info", "cluster info --output json"])
@connection_options
@output_option
def info(*, output: str, **_: object) -> None:
    """Show id, controller, brokers, topics and features of the cluster."""

    async def call(admin: Admin) -> tuple[Any, ...]:
        described, topics = await asyncio.gather(admin.describe_cluster(), admin.list_topics())
        return described, len(topics), dict(admin.features)

    described, topics, features = ask(call)
    controller = None if described.controller is None else described.controller.node_id
    brokers = [
        (node.node_id, node.host, node.port, node.rack, node.node_id == controller)
        for node in described.nodes
    ]
    if output == "json":
        names = [column.name for column in BROKER_COLUMNS]
        show_json(
            {
                "cluster_id": described.cluster_id,
                "controller": controller,
                "topics": topics,
                "features": features,
                "brokers": [dict(zip(names, row, strict=True)) for row in brokers],
            }
        )
        return
    if output != "csv":
        say(f"cluster     {described.cluster_id or '-'}")
        say(f"controller  {'-' if controller is None else controller}")
        say(f"topics      {topics}")
        for number, (name, level) in enumerate(sorted(features.items())):
            say(f"{'features' if not number else '':<11} {name} {level}")
        say("")
    show(BROKER_COLUMNS, brokers, output=output)


@cluster.command(examples=["cluster health", "cluster health --output json"])
@connection_options
@output_option
def health(*, output: str, **_: object) -> None:
    """Look for full disks, offline partitions, missing replicas, hanging transactions and readers
    held back.

    Exit code 1 if there is a problem. An open transaction by itself is no problem.
    """

    async def call(admin: Admin) -> list[Row]:
        return [await _full_disks(admin), *await health_rows(admin)]

    rows = ask(call)
    shown = [
        (row.check, row.state, row.number, row.what if output == "json" else some(row.what))
        for row in rows
    ]
    show(HEALTH_COLUMNS, shown, output=output)
    if any(row.state == PROBLEM for row in rows):
        if any(row.check == "hanging transactions" and row.number for row in rows):
            note("to see how each hanging transaction can be ended: oncelog txn blocking TOPIC")
        click.get_current_context().exit(1)


@cluster.command(examples=["cluster brokers", "cluster brokers --output json"])
@connection_options
@output_option
def brokers(*, output: str, **_: object) -> None:
    """List the brokers, stopped ones included, with the number of their partitions.

    A fenced broker has registered, and is not alive.
    """
    show(COLUMNS, ask(broker_rows), output=output)


@cluster.command(examples=["cluster unregister 3"])
@click.argument("broker_id", metavar="ID", type=int)
@connection_options
def unregister(*, broker_id: int, **_: object) -> None:
    """Forget a stopped broker that will not come back.

    Its partitions keep it as a replica. If it does come back, its replicas count as empty.
    """
    ask(lambda admin: admin.unregister_broker(broker_id))
    note(f"broker {broker_id} is no longer registered")


async def _full_disks(admin: Admin) -> Row:
    full = [f"broker {disk.broker} {disk.found}" for disk in await disks(admin) if disk.is_full]
    return Row("full disks", PROBLEM if full else OK, len(full), full)


async def health_rows(admin: Admin) -> list[Row]:
    """Return a row of `health` for each kind of problem of partitions, transactions and groups."""
    topics = await admin.list_topics(list_internal=True)
    described = await admin.describe_topics(topics) if topics else {}
    infos = {
        TopicPartition(info.topic, info.partition): info
        for topic in described.values()
        for info in topic.partitions
    }
    offline = [str(place) for place, info in infos.items() if info.leader is None]
    missing = [str(place) for place, info in infos.items() if _lacks_copies(info)]
    led = [place for place, info in infos.items() if info.leader is not None]
    waiting = await _held_back(admin, led)
    found = await open_transactions(admin, waiting) if waiting else []
    hanging = sorted(
        {_named(transaction) for transaction in found if transaction.description is None}
    )
    is_open = sorted(
        {_named(transaction) for transaction in found if transaction.description is not None}
    )
    readers = await _waiting_groups(admin, set(waiting)) if waiting else []
    return [
        Row("offline partitions", PROBLEM if offline else OK, len(offline), offline),
        Row("under-replicated partitions", PROBLEM if missing else OK, len(missing), missing),
        Row("hanging transactions", PROBLEM if hanging else OK, len(hanging), hanging),
        Row("open transactions", NOTICE if is_open else OK, len(is_open), is_open),
        Row("groups held back", NOTICE if readers else OK, len(readers), readers),
    ]


def some(names: list[str]) -> str | None:
    """Return a text with the first NAMED names and the number of further names. Return None for an
    empty list."""
    if not names:
        return None
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _named(transaction: Any) -> str:
    if transaction.description is not None:
        return str(transaction.description.transactional_id)
    return f"producer {transaction.producer.producer_id} in {transaction.place}"


def _lacks_copies(info: PartitionInfo) -> bool:
    return info.leader is not None and len(info.in_sync_replicas) < len(info.replicas)


async def _held_back(admin: Admin, places: list[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions in which readers of committed records cannot read to the end."""
    if not places:
        return []
    specs: dict[TopicPartition, Any] = dict.fromkeys(places, "latest")
    stable, ends = await asyncio.gather(
        admin.list_offsets(specs, isolation_level="read_committed"), admin.list_offsets(specs)
    )
    return [place for place in places if stable[place].offset < ends[place].offset]


async def _waiting_groups(admin: Admin, places: set[TopicPartition]) -> list[str]:
    """Return the groups with unread records that open transactions hold back in these
    partitions."""
    names = [found.group_id for found in await admin.list_groups()]
    held = []
    for name in names:
        lags = await admin.describe_group_lag(name)
        if any(place in places and lag.held_back > 0 for place, lag in lags.items()):
            held.append(name)
    return held
