"""`oncelog txn`: the everyday verbs of `oncelog transactions`, which has all of Kafka's."""

from __future__ import annotations

from collections.abc import Sequence

import click

from oncelog_client.cli.commands import Tool, ToolGroup
from oncelog_client.cli.options import connection_options
from oncelog_client.cli.transactions import transactions


@click.group(
    cls=ToolGroup,
    examples=["txn list --state Ongoing", "txn blocking orders", "txn abort billing-7"],
)
@connection_options
def txn(**_: object) -> None:
    """Find transactions, see what they hold back, abort them safely."""


def _same(verb: str, name: str, text: str, examples: Sequence[str]) -> None:
    """Add `name`, which does what `transactions <verb>` does."""
    there = transactions.commands[verb]
    txn.add_command(
        Tool(
            name,
            callback=there.callback,
            params=there.params,
            help=text,
            examples=examples,
        )
    )


_same(
    "list",
    "list",
    "Print the transactional ids with their states.",
    ["txn list", "txn list --state Ongoing --duration-filter 60000"],
)
_same(
    "blocking",
    "blocking",
    "Show the open transactions that keep readers of committed records waiting.",
    ["txn blocking orders"],
)
_same(
    "describe",
    "describe",
    "Show a transactional id: its transaction, its producer, and which were fenced, by what.",
    ["txn describe billing-7"],
)
_same(
    "force-terminate",
    "abort",
    "Abort what a transactional id has open, in all its partitions, by its coordinator. Its"
    " producer is fenced.",
    ["txn abort billing-7"],
)
