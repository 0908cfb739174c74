"""`oncelog transactions`: the verbs, flags and columns of kafka-transactions (KIP-664), and
`blocking`."""

from __future__ import annotations

from typing import Any, Final

import click

from oncelog_client.admin import Admin, TransactionDescription
from oncelog_client.cli.blocking import blocking
from oncelog_client.cli.commands import ToolGroup
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.failures import Missing
from oncelog_client.cli.hanging import find_hanging
from oncelog_client.cli.marker import abort
from oncelog_client.cli.names import INT64_MAX, NAME, PARTITION
from oncelog_client.cli.options import connection_options, output_option
from oncelog_client.cli.output import Column, for_people, show
from oncelog_client.cli.prepared import prepared
from oncelog_client.cli.transaction_options import broker_option
from oncelog_client.cli.two_phase import include_two_phase_option, refuse_two_phase
from oncelog_client.errors import KafkaError
from oncelog_client.io.clock import wall_ms
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode

LIST_COLUMNS: Final = (
    Column("Transactional id", "id"),
    Column("Coordinator", "count", rank=4),
    Column("Producer id", "count", rank=3),
    Column("Transaction state"),
    Column("Age ms", "duration", rank=1),
    Column("Client id", "id", rank=2),
)
# Above this number, ids are listed without age and client, because each id would need a request.
MOST_DESCRIBED: Final = 500
DESCRIBE_COLUMNS: Final = (
    Column("Coordinator id", "count"),
    Column("Transactional id", "id"),
    Column("Producer id", "count"),
    Column("Producer epoch", "count"),
    Column("Transaction state"),
    Column("Transaction timeout ms", "duration"),
    Column("Current transaction start time ms", "time"),
    Column("Transaction duration ms", "duration"),
    Column("Topic partitions", "partitions"),
    Column("Client id", "id"),
    Column("Client address", "id"),
    Column("Principal", "id"),
    Column("Time left ms", "duration"),
)
FENCE_COLUMNS: Final = (
    Column("Refused producer id", "count"),
    Column("Up to epoch", "count"),
    Column("Cause"),
    Column("Since ms", "time"),
    Column("By client id", "id"),
    Column("By client address", "id", rank=1),
    Column("By principal", "id", rank=1),
    Column("Refusals", "count", rank=2),
)
PRODUCER_COLUMNS: Final = (
    Column("Producer id", "count"),
    Column("Producer epoch", "count"),
    Column("Latest coordinator epoch", "count", rank=2, label="Coordinator epoch"),
    Column("Last sequence", "count", rank=1),
    Column("Last timestamp", "time"),
    Column("Current transaction start offset", "offset", label="Open from"),
    Column("Held records", "count"),
    Column("Held bytes", "size"),
)
STATES: Final = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"),
    *("Dead", "PrepareEpochFence"),
)
RESULT_COLUMNS: Final = (Column("Transactional id", "id"), Column("Result"))


@click.group(
    cls=ToolGroup,
    examples=[
        "transactions blocking",
        "transactions describe billing-7",
        "transactions force-terminate billing-7",
    ],
)
@connection_options
@output_option
def transactions(**_: object) -> None:
    """List, describe and abort transactions. Options stand before or after the verb."""


transactions.add_command(abort)
transactions.add_command(blocking)
transactions.add_command(find_hanging)
transactions.add_command(prepared)


@transactions.command(
    "list",
    examples=["transactions list", "transactions list --state Ongoing --duration-filter 60000"],
)
@connection_options
@output_option
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    metavar="STATE",
    help=f"One of {', '.join(STATES)}.",
)
@click.option(
    "--duration-filter",
    type=click.IntRange(-1, INT64_MAX),
    default=-1,
    metavar="MS",
    help="Only transactions open longer than this.",
)
@click.option(
    "--transactional-id-pattern",
    type=NAME,
    metavar="REGEX",
    help="Only ids that match REGEX completely.",
)
def list_(
    *,
    states: tuple[str, ...],
    duration_filter: int,
    transactional_id_pattern: str | None,
    output: str,
    **_: object,
) -> None:
    """Print the transactional ids with their producers and states."""

    async def call(admin: Admin) -> list[tuple[Any, ...]]:
        found = await admin.list_transactions(
            states=states,
            duration_ms=duration_filter,
            transactional_id_pattern=transactional_id_pattern,
        )
        described = await _described(admin, [listing.transactional_id for listing in found])
        now_ms = wall_ms()
        return [
            (
                *(listing.transactional_id, listing.coordinator_id, listing.producer_id),
                *(listing.state, *_age_and_client(described.get(listing.transactional_id), now_ms)),
            )
            for listing in found
        ]

    rows = ask(call)
    show(LIST_COLUMNS, rows, output=output, empty="no transactional ids")


async def _described(admin: Admin, names: list[str]) -> dict[str, TransactionDescription]:
    """Return the descriptions of the ids. The result is empty if there are more than MOST_DESCRIBED
    ids, or if an id has expired meanwhile."""
    if not names or len(names) > MOST_DESCRIBED:
        return {}
    try:
        return await admin.describe_transactions(names)
    except KafkaError as error:
        if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        return {}


def _age_and_client(
    found: TransactionDescription | None, now_ms: int
) -> tuple[int | None, str | None]:
    if found is None:
        return None, None
    started_ms = found.transaction_start_time_ms
    return None if started_ms is None else max(now_ms - started_ms, 0), found.client_id


@transactions.command(examples=["transactions describe billing-7"])
@connection_options
@output_option
@click.argument("id_", metavar="[ID]", required=False, type=NAME)
@click.option("--transactional-id", type=NAME, metavar="ID", help="The same as the argument.")
def describe(*, id_: str | None, transactional_id: str | None, output: str, **_: object) -> None:
    """Show a transactional id: epoch, state, timeout and partitions, and its producers that were
    fenced lately, with the reason and the client."""
    wanted = _one_id(id_, transactional_id)
    found = ask(lambda admin: existing(admin, wanted))
    fences = [
        (
            *(fence.producer_id, fence.producer_epoch, fence.cause, fence.fenced_at_ms),
            *(fence.client_id or None, fence.client_address or None, fence.principal or None),
            fence.refusals,
        )
        for fence in found.fences
    ]
    if output == "json":
        names = [column.name for column in FENCE_COLUMNS]
        listed = [dict(zip(names, row, strict=True)) for row in fences]
        show((*DESCRIBE_COLUMNS, Column("Refused")), [(*_row(found), listed)], output=output)
        return
    show(DESCRIBE_COLUMNS, [_row(found)], output=output)
    if fences and for_people(output):
        click.echo()
        show(FENCE_COLUMNS, fences, output=output)


def _one_id(argument: str | None, option: str | None) -> str:
    found = option or argument
    if found is None or None not in (argument, option):
        raise click.UsageError("one transactional id is needed")
    return found


async def existing(admin: Admin, transactional_id: str) -> TransactionDescription:
    """Return the description of an id. Raises click.ClickException if the id does not exist."""
    try:
        return (await admin.describe_transactions([transactional_id]))[transactional_id]
    except KafkaError as error:
        if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise Missing(f"no transactional id {transactional_id!r}") from error
        raise


def _row(found: TransactionDescription) -> tuple[Any, ...]:
    started_ms = found.transaction_start_time_ms
    return (
        *(found.coordinator_id, found.transactional_id, found.producer_id, found.producer_epoch),
        *(found.state, found.transaction_timeout_ms, started_ms),
        None if started_ms is None else max(wall_ms() - started_ms, 0),
        list(map(str, sorted(found.topic_partitions))),
        *(found.client_id, found.client_address, found.principal, found.time_left_ms),
    )


@transactions.command(
    "describe-producers",
    examples=["transactions describe-producers --topic orders --partition 0"],
)
@connection_options
@output_option
@broker_option
@click.option("--topic", required=True, type=NAME, metavar="NAME", help="The topic.")
@click.option("--partition", type=PARTITION, required=True, metavar="N", help="Its partition.")
def describe_producers(
    *, broker_id: int | None, topic: str, partition: int, output: str, **_: object
) -> None:
    """Show the producers of a partition and their open transactions in it."""
    place = TopicPartition(topic, partition)
    found = ask(lambda admin: admin.describe_producers([place], broker_id=broker_id))
    rows = [
        (
            *(state.producer_id, state.producer_epoch),
            *(state.coordinator_epoch, state.last_sequence),
            *(state.last_timestamp, state.current_transaction_start_offset),
            *(state.held_records, state.held_bytes),
        )
        for state in found[place]
    ]
    show(PRODUCER_COLUMNS, rows, output=output, empty="no producers")


@transactions.command("force-terminate", examples=["transactions force-terminate billing-7"])
@connection_options
@output_option
@click.argument("id_", metavar="[ID]", required=False, type=NAME)
@click.option(
    *("--transactional-id", "--transactionalId"),
    type=NAME,
    metavar="ID",
    help="The same as the argument.",
)
@include_two_phase_option()
def force_terminate(
    *,
    id_: str | None,
    transactional_id: str | None,
    include_two_phase: bool,
    output: str,
    **_: object,
) -> None:
    """Abort the open transaction of a transactional id, in all its partitions, by its coordinator.
    Its producer is fenced.

    An open transaction of a two-phase commit is aborted only with --include-two-phase, because its
    application may have decided to commit.
    """
    wanted = _one_id(id_, transactional_id)

    async def call(admin: Admin) -> None:
        # Raises for an id that does not exist: force_terminate_transaction would create it.
        found = await existing(admin, wanted)
        if not include_two_phase:
            refuse_two_phase(found)
        await admin.force_terminate_transaction(wanted)

    ask(call)
    show(RESULT_COLUMNS, [(wanted, "terminated")], output=output)


# Kafka's tool has this name for the verb.
transactions.add_command(
    click.Command(
        "forceTerminateTransaction",
        callback=force_terminate.callback,
        params=force_terminate.params,
        help=force_terminate.help,
        hidden=True,
    )
)
