"""`oncelog transactions blocking`: who keeps readers of committed records from going on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from oncelog_client.admin import AbortTransactionSpec, Admin
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.hanging import OpenTransaction, open_transactions, partitions_of
from oncelog_client.cli.options import connection_options, output_option
from oncelog_client.cli.output import Column, for_people, show
from oncelog_client.cli.two_phase import EVEN_TWO_PHASE, refuse_two_phase
from oncelog_client.clock import wall_ms
from oncelog_client.values import TopicPartition

HANGING: Final = "Hanging"
COLUMNS: Final = (
    Column("Partition", "count"),
    Column("Start offset", "offset"),
    Column("Transactional id", "id"),
    Column("Producer id", "count"),
    Column("Producer epoch", "count"),
    Column("State"),
    Column("Client id", "id"),
    Column("Client address", "id"),
    Column("Age ms", "duration"),
    Column("Held records", "count"),
    Column("Held bytes", "size"),
    Column("Time left ms", "duration"),
    Column("Two-phase"),
)
ABORT_COLUMNS: Final = (Column("Aborted", "id"), Column("How"))


@click.command()
@connection_options
@click.argument("topic")
@click.option(
    "--abort",
    "aborted",
    metavar="ID",
    help="Abort what this transactional id or producer id holds open: through the coordinator, "
    "everywhere, where that knows of it, else by a marker in this topic.",
)
@click.option(
    "--even-two-phase",
    is_flag=True,
    help=f"With --abort: also {EVEN_TWO_PHASE}",
)
@output_option
def blocking(
    *, topic: str, aborted: str | None, even_two_phase: bool, output: str, **_: object
) -> None:
    """Every transaction that is open in TOPIC: readers of committed records wait for the first of
    each partition. `Hanging`: its coordinator does not know of it, and nobody will end it.
    Two-phase: it is for somebody else to decide, however long that takes."""
    if even_two_phase and aborted is None:
        raise click.UsageError("--even-two-phase needs --abort")
    if aborted is not None:
        how = ask(lambda admin: _abort(admin, topic, aborted, even_two_phase=even_two_phase))
        show(ABORT_COLUMNS, [(aborted, how)], output=output)
        return
    rows = ask(lambda admin: _rows(admin, topic))
    show(COLUMNS, rows, output=output)
    if rows and for_people(output):
        click.echo(f"abort with: oncelog transactions blocking {topic} --abort ID", err=True)


async def _rows(admin: Admin, topic: str) -> list[Sequence[Any]]:
    found = await open_transactions(admin, await partitions_of(admin, [topic]))
    ends = await admin.list_offsets({one.place: "latest" for one in found}) if found else {}
    now_ms = wall_ms()
    return [_row(one, ends[one.place].offset, now_ms) for one in found]


def _row(one: OpenTransaction, high_watermark: int, now_ms: int) -> Sequence[Any]:
    producer, known = one.producer, one.description
    # What the coordinator does not know is as old as its last record, at least.
    began_ms = producer.last_timestamp
    if known is not None and known.transaction_start_time_ms is not None:
        began_ms = known.transaction_start_time_ms
    held = producer.held_records
    return (
        *(one.place.partition, one.start_offset, known and known.transactional_id),
        *(producer.producer_id, producer.producer_epoch, known.state if known else HANGING),
        *(known and known.client_id, known and known.client_address, max(now_ms - began_ms, 0)),
        max(high_watermark - one.start_offset, 0) if held is None else held,
        *(producer.held_bytes, known and known.time_left_ms, known and known.is_two_phase),
    )


async def _abort(admin: Admin, topic: str, name: str, *, even_two_phase: bool) -> str:
    """Raises click.ClickException where there is nothing of that name to abort, or it is not for
    an operator to decide."""
    found = await open_transactions(admin, await partitions_of(admin, [topic]))
    chosen = [
        one
        for one in found
        if name == str(one.producer.producer_id)
        or (one.description is not None and name == one.description.transactional_id)
    ]
    if not chosen:
        raise click.ClickException(f"{name} has no open transaction in {topic}")
    if not even_two_phase:
        for one in chosen:
            if one.description is not None:
                refuse_two_phase(one.description)
    known = {one.description.transactional_id for one in chosen if one.description is not None}
    for transactional_id in sorted(known):
        await admin.force_terminate_transaction(transactional_id)
    hanging = [one for one in chosen if one.description is None]
    for one in hanging:
        await admin.abort_transaction(_spec(one))
    return ", ".join(
        [f"by its coordinator: {one}" for one in sorted(known)]
        + [f"by a marker: {one.place}" for one in hanging]
    )


def _spec(one: OpenTransaction) -> AbortTransactionSpec:
    producer = one.producer
    place: TopicPartition = one.place
    return AbortTransactionSpec(
        place, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch or 0
    )
