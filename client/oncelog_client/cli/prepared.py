"""`oncelog transactions prepared`: transactions that wait for an external coordinator
(KIP-939)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from oncelog_client.admin import Admin, TransactionDescription
from oncelog_client.cli.commands import Tool
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.options import connection_options, output_option
from oncelog_client.cli.output import Column, show
from oncelog_client.core.prepared_txn_state import PreparedTxnState
from oncelog_client.io.clock import wall_ms

COLUMNS: Final = (
    Column("Transactional id", "id"),
    Column("Prepared state", "id"),
    Column("Coordinator", "count", rank=4),
    Column("Age ms", "duration"),
    Column("Topic partitions", "partitions", rank=1),
    Column("Client id", "id", rank=2),
    Column("Client address", "id", rank=3),
)


@click.command(cls=Tool, examples=["transactions prepared"])
@connection_options
@output_option
def prepared(*, output: str, **_: object) -> None:
    """Show the open transactions of two-phase commits, the oldest first.

    If an application has decided to commit, the prepared state is in its database.
    """
    show(COLUMNS, ask(_rows), output=output, empty="no prepared transactions")


async def _rows(admin: Admin) -> list[Sequence[Any]]:
    ongoing = await admin.list_transactions(states=["Ongoing"])
    described = await admin.describe_transactions([listing.transactional_id for listing in ongoing])
    found = [description for description in described.values() if description.is_two_phase]
    now_ms = wall_ms()
    return [
        _row(description, now_ms)
        for description in sorted(found, key=lambda description: _began_ms(description, now_ms))
    ]


def _began_ms(description: TransactionDescription, now_ms: int) -> int:
    return (
        now_ms
        if description.transaction_start_time_ms is None
        else description.transaction_start_time_ms
    )


def _row(description: TransactionDescription, now_ms: int) -> Sequence[Any]:
    return (
        *(
            description.transactional_id,
            str(PreparedTxnState(description.producer_id, description.producer_epoch)),
        ),
        *(description.coordinator_id, max(now_ms - _began_ms(description, now_ms), 0)),
        *(
            list(map(str, sorted(description.topic_partitions))),
            description.client_id,
            description.client_address,
        ),
    )
