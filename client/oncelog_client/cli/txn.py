"""`oncelog txn`: the everyday verbs. `oncelog transactions` has all verbs of kafka-transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from oncelog_client.admin import Admin
from oncelog_client.cli.commands import Tool, ToolGroup
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.names import NAME
from oncelog_client.cli.options import connection_options, output_option
from oncelog_client.cli.output import show
from oncelog_client.cli.transactions import RESULT_COLUMNS, existing, transactions
from oncelog_client.cli.two_phase import include_two_phase_option, refuse_two_phase

# The states in which an abort has an effect. The coordinator ends decided transactions by itself.
OPEN_STATES: Final = frozenset({"Ongoing"})


@click.group(
    cls=ToolGroup,
    examples=["txn list --state Ongoing", "txn blocking orders", "txn abort billing-7"],
)
@connection_options
@output_option
def txn(**_: object) -> None:
    """Find transactions, see what they hold back, abort them safely."""


def _same(verb: str, name: str, text: str, examples: Sequence[str]) -> None:
    """Add the verb `name`, which does the same as `transactions <verb>`."""
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
    "Show a transactional id: its transaction, its producer, its fenced producers with the cause.",
    ["txn describe billing-7"],
)


@txn.command(
    cls=Tool,
    examples=["txn abort billing-7"],
)
@connection_options
@output_option
@click.argument("transactional_id", metavar="ID", type=NAME)
@include_two_phase_option()
def abort(*, transactional_id: str, include_two_phase: bool, output: str, **_: object) -> None:
    """Abort the open transaction of a transactional id, in all its partitions, by its coordinator.
    Its producer is fenced. Without an open transaction, the command does nothing.
    """

    async def call(admin: Admin) -> str:
        found = await existing(admin, transactional_id)
        if found.state not in OPEN_STATES:
            return f"nothing open ({found.state})"
        if not include_two_phase:
            refuse_two_phase(found)
        await admin.force_terminate_transaction(transactional_id)
        return "aborted"

    show(RESULT_COLUMNS, [(transactional_id, ask(call))], output=output)
