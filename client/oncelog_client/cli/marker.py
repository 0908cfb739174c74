"""`oncelog transactions abort`: writes a marker without the coordinator, for hanging transactions
(KIP-664)."""

from __future__ import annotations

from typing import Final

import click

from oncelog_client.admin import AbortTransactionSpec, Admin
from oncelog_client.cli.commands import Tool
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.hanging import before_an_abort, describe_by_producer
from oncelog_client.cli.names import (
    COORDINATOR_EPOCH,
    NAME,
    OFFSET,
    PARTITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
)
from oncelog_client.cli.options import connection_options, former_name, output_option
from oncelog_client.cli.output import Column, show
from oncelog_client.cli.two_phase import OPEN
from oncelog_client.errors import KafkaError
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode

COLUMNS: Final = (
    Column("Topic", "id"),
    Column("Partition", "count"),
    Column("Producer id", "count"),
    Column("Result"),
)


@click.command(
    cls=Tool,
    examples=["transactions abort --topic orders --partition 0 --start-offset 42"],
)
@connection_options
@output_option
@click.option("--topic", required=True, type=NAME, metavar="NAME", help="The topic.")
@click.option("--partition", type=PARTITION, required=True, metavar="N", help="Its partition.")
@click.option("--start-offset", type=OFFSET, metavar="OFFSET", help="Where the transaction begins.")
@click.option(
    "--producer-id",
    type=PRODUCER_ID,
    metavar="N",
    help="The transaction's producer id; needs both epochs, replaces --start-offset.",
)
@click.option("--producer-epoch", type=PRODUCER_EPOCH, metavar="N", help="Its producer's epoch.")
@click.option(
    "--coordinator-epoch", type=COORDINATOR_EPOCH, metavar="N", help="Its coordinator's epoch."
)
@click.option(
    "--force",
    is_flag=True,
    help="Do not check with the coordinators. Dangerous: other partitions may be committed."
    " A broker of oncelog still checks.",
)
@former_name("--even-known", "force", is_flag=True)
def abort(
    *,
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    force: bool,
    output: str,
    **_: object,
) -> None:
    """Abort a hanging transaction.

    A marker is written to one partition, without the coordinator. The command refuses a transaction
    that a coordinator knows: `force-terminate` ends such a transaction in all its partitions.
    """
    place = TopicPartition(topic, partition)
    wanted: AbortTransactionSpec | int
    if start_offset is not None:
        wanted = start_offset
    elif producer_id is None or producer_epoch is None or coordinator_epoch is None:
        raise click.UsageError(
            "--start-offset is needed, or --producer-id, --producer-epoch and --coordinator-epoch"
        )
    else:
        wanted = AbortTransactionSpec(place, producer_id, producer_epoch, coordinator_epoch)
    aborted = ask(lambda admin: abort_by_marker(admin, place, wanted, force=force))
    show(COLUMNS, [(topic, partition, aborted, "aborted")], output=output)


async def abort_by_marker(
    admin: Admin, place: TopicPartition, wanted: AbortTransactionSpec | int, *, force: bool
) -> int:
    """Abort a transaction in one partition and return the transaction's producer id. If `wanted` is
    an offset, abort the transaction that begins there. `force` skips the check with the
    coordinators. Raises click.ClickException if the transaction does not exist, or if this check or
    the broker finds that a coordinator may still end it."""
    spec = await _beginning_at(admin, place, wanted) if isinstance(wanted, int) else wanted
    if not force:
        await _refuse_known(admin, spec)
        if isinstance(wanted, int):
            # The transaction may have ended while the coordinators were checked. The marker would
            # then end the producer's next transaction.
            spec = await _beginning_at(admin, place, wanted)
    try:
        await admin.abort_transaction(spec)
    except KafkaError as error:
        if error.code is not ErrorCode.INVALID_TXN_STATE:
            raise
        raise click.ClickException(
            f"the broker refuses the marker in {place}: a coordinator will end the transaction of"
            f" producer id {spec.producer_id}. `oncelog transactions blocking {place.topic}` shows"
            " its transactional id and ends all of it"
        ) from error
    return spec.producer_id


async def _beginning_at(
    admin: Admin, place: TopicPartition, start_offset: int
) -> AbortTransactionSpec:
    """Return the transaction that begins at the offset. Raises click.ClickException if there is
    none."""
    for describe_producer in (await admin.describe_producers([place]))[place]:
        if describe_producer.current_transaction_start_offset == start_offset:
            epoch = describe_producer.coordinator_epoch or 0
            return AbortTransactionSpec(
                place, describe_producer.producer_id, describe_producer.producer_epoch, epoch
            )
    raise click.ClickException(f"no open transaction begins at offset {start_offset} of {place}")


async def _refuse_known(admin: Admin, spec: AbortTransactionSpec) -> None:
    """Raise click.ClickException if a coordinator will end the transaction, or does not respond."""
    place: TopicPartition = spec.topic_partition
    with before_an_abort():
        known = (await describe_by_producer(admin, {spec.producer_id})).get(spec.producer_id)
    # The comparison ignores epochs: a coordinator bumps the epoch with its decision, before it
    # writes markers. And a marker ends any open transaction of its producer in the partition.
    if known is None or place not in known.topic_partitions:
        return
    name = known.transactional_id
    instead = (
        f"`oncelog transactions force-terminate {name}` or `oncelog transactions blocking"
        f" {place.topic} --abort {name}` ends all of it"
        if known.state == OPEN
        else f"its coordinator is ending it: see `oncelog transactions describe {name}`"
    )
    raise click.ClickException(
        f"{name} has a transaction in {place} ({known.state}) that its coordinator knows. A"
        f" marker without the coordinator may abort one part of a transaction that is committed in"
        f" the other partitions. Instead: {instead}; --force skips this check"
    )
