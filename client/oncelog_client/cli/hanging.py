"""`oncelog transactions find-hanging`: transactions that are open in a partition but unknown to
their coordinator. Such transactions never end (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import click

from oncelog_client.admin import Admin, ProducerState, TransactionDescription
from oncelog_client.admin.transaction_admin import TransactionAdmin
from oncelog_client.cli.commands import Tool
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.failures import Failed
from oncelog_client.cli.names import INT32_MAX, NAME
from oncelog_client.cli.options import connection_options, output_option
from oncelog_client.cli.output import Column, note, show
from oncelog_client.cli.transaction_options import broker_option, partition_option
from oncelog_client.errors import KafkaError, RetriableError
from oncelog_client.io.clock import wall_ms
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode

# The default of transaction.max.timeout.ms.
MAX_TIMEOUT_MINUTES: Final = 15
NOT_VISIBLE: Final = (
    "This user may not describe all transactional ids, so a coordinator may know them: this needs"
    " DESCRIBE on TRANSACTIONAL_ID"
)
COLUMNS: Final = (
    Column("Topic", "id"),
    Column("Partition", "count"),
    Column("Producer id", "count"),
    Column("Producer epoch", "count", rank=2),
    Column("Coordinator epoch", "count", rank=3),
    Column("Start offset", "offset"),
    Column("Last timestamp", "time", rank=1),
    Column("Duration min", "count"),
)


class Unlisted(Failed):
    """A coordinator does not list its transactions."""


@contextmanager
def before_an_abort() -> Iterator[None]:
    """Add to the message of Unlisted that nothing was aborted."""
    try:
        yield
    except Unlisted as error:
        raise Failed(f"{error.message}; nothing was aborted") from error


class OpenTransaction(NamedTuple):
    """A transaction with records in a partition and without a marker. `description` is the
    coordinator's. It is None for a hanging transaction: no coordinator will write the missing
    marker. It is also None if `may_be_hidden`: this client may not describe every transactional id,
    so that a coordinator may know the transaction."""

    place: TopicPartition
    producer: ProducerState
    description: TransactionDescription | None = None
    may_be_hidden: bool = False

    @property
    def is_hanging(self) -> bool:
        """Return True if no coordinator knows the transaction."""
        return self.description is None and not self.may_be_hidden

    @property
    def start_offset(self) -> int:
        assert self.producer.current_transaction_start_offset is not None
        return self.producer.current_transaction_start_offset


async def open_transactions(
    admin: TransactionAdmin, places: Iterable[TopicPartition], broker_id: int | None = None
) -> list[OpenTransaction]:
    """Return the open transactions, sorted by partition and start offset. Each has its
    coordinator's description, which is None for a hanging transaction and for one with a
    transactional id that the client may not describe."""
    found = await _in_partitions(admin, places, broker_id)
    described = await describe_by_producer(
        admin, {transaction.producer.producer_id for transaction in found}
    )
    known = []
    for transaction in found:
        description = described.get(transaction.producer.producer_id)
        # The coordinator will write the missing marker of this transaction.
        if description is not None and transaction.place in description.topic_partitions:
            known.append(transaction._replace(description=description))
    known_places = {(transaction.place, transaction.start_offset) for transaction in known}
    suspects = [
        transaction
        for transaction in found
        if (transaction.place, transaction.start_offset) not in known_places
    ]
    if suspects:
        # A transaction without a description may have ended between the first and the second
        # request. Such a transaction does not hang.
        still = await _in_partitions(admin, {suspect.place for suspect in suspects}, broker_id)
        still_open = {(transaction.place, transaction.start_offset) for transaction in still}
        suspects = [
            suspect for suspect in suspects if (suspect.place, suspect.start_offset) in still_open
        ]
    if suspects and not await admin.may_write_markers():
        # The list of transactional ids has only those that the client may describe. Only to a
        # client that may end a hanging transaction, a broker reports that it left ids out.
        suspects = [suspect._replace(may_be_hidden=True) for suspect in suspects]
    return sorted(
        (*known, *suspects), key=lambda transaction: (transaction.place, transaction.start_offset)
    )


async def _in_partitions(
    admin: TransactionAdmin, places: Iterable[TopicPartition], broker_id: int | None
) -> list[OpenTransaction]:
    producers = await admin.describe_producers(places, broker_id=broker_id)
    return [
        OpenTransaction(place, producer)
        for place, of_place in producers.items()
        for producer in of_place
        if producer.current_transaction_start_offset is not None
    ]


async def describe_by_producer(
    admin: TransactionAdmin, producer_ids: Iterable[int]
) -> dict[int, TransactionDescription]:
    """Return the coordinators' descriptions of the transactional ids with these producer ids.
    Raises Unlisted if a coordinator does not respond."""
    wanted = set(producer_ids)
    if not wanted:
        return {}
    described = {}
    try:
        listings = await admin.list_transactions(producer_ids=wanted)
    except RetriableError as error:
        # A coordinator that does not respond may be about to commit one of the transactions.
        raise Unlisted(
            f"{error}. Hanging transactions cannot be found until every coordinator responds"
        ) from error
    for listing in listings:
        try:
            found = await admin.describe_transactions([listing.transactional_id])
        except KafkaError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            continue  # The id has expired meanwhile.
        described[listing.producer_id] = found[listing.transactional_id]
    return described


async def partitions_of(admin: Admin, topics: Iterable[str]) -> list[TopicPartition]:
    """Return every partition of the topics."""
    described = await admin.describe_topics(topics)
    return [
        TopicPartition(topic, info.partition)
        for topic, description in described.items()
        for info in description.partitions
    ]


@click.command(
    "find-hanging",
    cls=Tool,
    examples=[
        "transactions find-hanging --topic orders",
        "transactions find-hanging --broker-id 1",
    ],
)
@connection_options
@output_option
@broker_option
@click.option(
    "--max-transaction-timeout",
    type=click.IntRange(0, INT32_MAX),
    default=MAX_TIMEOUT_MINUTES,
    metavar="MINUTES",
    help=f"Minimum minutes without a record.  [default: {MAX_TIMEOUT_MINUTES}]",
)
@click.option(
    "--topic", type=NAME, metavar="NAME", help="The topic; needed unless there is a --broker-id."
)
@partition_option
def find_hanging(
    *,
    broker_id: int | None,
    max_transaction_timeout: int,
    topic: str | None,
    partition: int | None,
    output: str,
    **_: object,
) -> None:
    """Find transactions that no coordinator knows. They never end by themselves:
    `transactions abort` ends them."""
    if topic is None and broker_id is None:
        raise click.UsageError("--topic or --broker-id is needed")
    if topic is None and partition is not None:
        raise click.UsageError("--partition needs --topic")

    async def call(admin: Admin) -> list[OpenTransaction]:
        if topic is not None and partition is not None:
            places = [TopicPartition(topic, partition)]
        elif topic is not None:
            places = await partitions_of(admin, [topic])
        else:
            places = await _on_broker(admin, broker_id)
        return await open_transactions(admin, places, broker_id)

    found = ask(call)
    if hidden := {each.producer.producer_id for each in found if each.may_be_hidden}:
        ids = ", ".join(map(str, sorted(hidden)))
        note(f"not shown: open transactions of producer {ids}. {NOT_VISIBLE}")
    rows = rows_of((each for each in found if not each.may_be_hidden), max_transaction_timeout)
    show(COLUMNS, rows, output=output, empty="no hanging transactions")


def rows_of(found: Iterable[OpenTransaction], longer_than_minutes: int) -> list[tuple[Any, ...]]:
    """Return the cells of COLUMNS for each hanging transaction that has had no record for longer
    than this."""
    now_ms = wall_ms()
    return [
        _row(transaction, now_ms)
        for transaction in found
        if transaction.description is None
        and now_ms - transaction.producer.last_timestamp > longer_than_minutes * 60_000
    ]


async def _on_broker(admin: Admin, broker_id: int | None) -> list[TopicPartition]:
    topics = await admin.list_topics(list_internal=True)
    described = await admin.describe_topics(topics)
    return [
        TopicPartition(topic, info.partition)
        for topic, description in described.items()
        for info in description.partitions
        if broker_id in info.replicas
    ]


def _row(transaction: OpenTransaction, now_ms: int) -> tuple[Any, ...]:
    producer = transaction.producer
    return (
        *(
            transaction.place.topic,
            transaction.place.partition,
            producer.producer_id,
            producer.producer_epoch,
        ),
        *(producer.coordinator_epoch, transaction.start_offset, producer.last_timestamp),
        max(now_ms - producer.last_timestamp, 0) // 60_000,
    )
