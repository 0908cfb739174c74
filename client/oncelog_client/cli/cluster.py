"""`oncelog cluster`: the brokers of the cluster, and its problems."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from oncelog_client.admin import Admin
from oncelog_client.cli.brokers import COLUMNS, broker_rows
from oncelog_client.cli.cluster_checks import ALL, HEALTH, rows_of
from oncelog_client.cli.commands import ToolGroup, help_lines
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.drain import drain
from oncelog_client.cli.findings import PROBLEM, Finding, Row, show_findings
from oncelog_client.cli.options import connection_options, output_option
from oncelog_client.cli.output import Column, note, say, show, show_json
from oncelog_client.cli.rebalance import rebalance
from oncelog_client.cli.some_names import some
from oncelog_client.cli.strays import strays
from oncelog_client.cli.transaction_checks import HANGING
from oncelog_client.cli.unregister import unregister

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

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


# Verbs that need the broker's package: verb -> its module and name there, and its line in `--help`,
# which an installation without the broker shows too.
EXTENSIONS: Final[dict[str, tuple[str, str, str]]] = {
    "init": (
        "oncelog_server.migration.cluster_command",
        "init",
        "Move the metadata of a stopped broker from its data directory to etcd.",
    ),
    "export": (
        "oncelog_server.salvage.cluster_commands",
        "export",
        "Write the metadata of a cluster from etcd to a new FILE.",
    ),
    "import": (
        "oncelog_server.salvage.cluster_commands",
        "import_",
        "Write exported metadata to an etcd that has lost the metadata of its cluster.",
    ),
    "recover": (
        "oncelog_server.salvage.cluster_commands",
        "recover",
        "Rebuild the metadata of a cluster in etcd, after etcd was lost or restored from an older"
        " snapshot.",
    ),
    "survey": (
        "oncelog_server.salvage.cluster_commands",
        "survey_",
        "Write what a recovery needs to know about the data DIRECTORY of a stopped broker to FILE.",
    ),
}


class ClusterGroup(ToolGroup):
    """The verbs of this module, and EXTENSIONS."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *EXTENSIONS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in EXTENSIONS:
            return super().get_command(ctx, cmd_name)
        module, name, _ = EXTENSIONS[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of verbs, without importing them: the broker's package may not be
        installed."""
        from click.shell_completion import CompletionItem

        shown = {
            verb: text for verb, text in self.texts(ctx).items() if verb.startswith(incomplete)
        }
        found = [CompletionItem(verb, help=text) for verb, text in shown.items()]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def texts(self, ctx: click.Context) -> dict[str, str]:
        own = {name: super(ClusterGroup, self).get_command(ctx, name) for name in self.commands}
        return help_lines(own) | {verb: text for verb, (_, _, text) in EXTENSIONS.items()}


@click.group(cls=ClusterGroup, examples=["cluster info", "cluster health"])
@connection_options
@output_option
def cluster(**_: object) -> None:
    """Show the brokers of a cluster and its health, spread or move their partitions, unregister
    brokers that will not come back."""


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
    """Look for a metadata store that does not respond, full disks, partitions that are offline or
    below min ISR, missing replicas, hanging transactions and readers that are held back.

    Exit code 1 if there is a problem. An open transaction by itself is no problem. `cluster doctor`
    checks more, and says what to do.
    """

    async def call(admin: Admin) -> list[Row]:
        return [row async for row in rows_of(admin, HEALTH)]

    rows = ask(call)
    shown = [
        (row.check, row.state, row.number, row.what if output == "json" else some(row.what))
        for row in rows
    ]
    show(HEALTH_COLUMNS, shown, output=output)
    if any(row.state == PROBLEM for row in rows):
        if any(row.check == HANGING and row.number for row in rows):
            note("to see how each hanging transaction can be ended: oncelog txn blocking TOPIC")
        click.get_current_context().exit(1)


@cluster.command(examples=["cluster doctor", "cluster doctor --json"])
@connection_options
@output_option
def doctor(*, output: str, **_: object) -> None:
    """Check the cluster, and say what to do about each problem: partitions, brokers, moves,
    throttles, versions, features, transactions.

    The exit code is 1 if there is a problem; notices do not count. `oncelog doctor` also checks
    this computer and the settings of the brokers.
    """

    async def call(admin: Admin) -> list[Finding]:
        return [row.finding() async for row in rows_of(admin, ALL)]

    click.get_current_context().exit(show_findings(ask(call), output))


@cluster.command(examples=["cluster brokers", "cluster brokers --output json"])
@connection_options
@output_option
def brokers(*, output: str, **_: object) -> None:
    """List the brokers, stopped ones included, with the number of their partitions.

    A fenced broker has registered, but is not alive. A suspended broker responds, but leads
    nothing, because the metadata store (etcd) has not responded to it for the length of a session.
    """
    show(COLUMNS, ask(broker_rows), output=output)


cluster.add_command(drain)
cluster.add_command(rebalance)
cluster.add_command(strays)
cluster.add_command(unregister)
