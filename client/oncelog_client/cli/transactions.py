"""`oncelog transactions`: what `__transaction_state` tells, in the columns of kafka-transactions.

The broker's own view (KIP-664: DescribeTransactions, ListTransactions) is not asked: the topic
holds the same state, of any broker that writes Kafka's formats.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import click
from click.core import ParameterSource

from oncelog_client.cli.connecting import connected
from oncelog_client.cli.options import (
    connection_options,
    json_option,
    read_properties,
    run,
)
from oncelog_client.cli.output import Progress, show
from oncelog_client.cli.topic_lookup import find_partitions
from oncelog_client.consumer import Consumer
from oncelog_client.errors import KafkaError
from oncelog_client.values import ConsumerRecord
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.internal.transaction_log import (
    TransactionLogValue,
    TransactionState,
    decode_transaction_log_key,
    decode_transaction_log_value,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion

STATE_TOPIC: Final = "__transaction_state"
POLL_MS: Final = 1_000
LIST_COLUMNS: Final = ("Transactional id", "Partition", "Producer id", "Transaction state")
DESCRIBE_COLUMNS: Final = (
    *("Partition", "Transactional id", "Producer id", "Producer epoch", "Transaction state"),
    *("Transaction timeout ms", "Current transaction start time ms", "Last update time ms"),
    "Topic partitions",
)


@dataclass(frozen=True, slots=True)
class TransactionalIdState:
    """The last record of one transactional id, and the partition of the topic it is in."""

    transactional_id: str
    partition: int
    value: TransactionLogValue

    @property
    def state(self) -> str:
        """The state under Kafka's name, such as `PrepareCommit`."""
        return TransactionState(self.value.transaction_status).kafka_name

    @property
    def topic_partitions(self) -> list[str]:
        """`topic-partition` of everything in the current transaction."""
        return [
            f"{topic.topic}-{partition}"
            for topic in self.value.transaction_partitions or ()
            for partition in topic.partition_ids
        ]

    @property
    def start_time_ms(self) -> int | None:
        """When the current transaction began; None outside one."""
        ongoing = self.value.transaction_status == TransactionState.ONGOING
        return self.value.transaction_start_timestamp_ms if ongoing else None


def latest_states(records: Iterable[ConsumerRecord]) -> dict[str, TransactionalIdState]:
    """What compaction would leave: the last value of each transactional id, tombstones applied.

    Records of a type or version this client does not know are left out.
    """
    states: dict[str, TransactionalIdState] = {}
    for record in records:
        try:
            key = decode_transaction_log_key(record.key or b"")
            if record.value is None:
                states.pop(key.transactional_id, None)
                continue
            value = decode_transaction_log_value(record.value)
        except UnknownRecordVersion:
            continue
        states[key.transactional_id] = TransactionalIdState(
            key.transactional_id, record.partition, value
        )
    return states


async def _states(
    bootstrap_server: str, settings: dict[str, Any], give_up_after: float
) -> dict[str, TransactionalIdState]:
    """Read the whole topic; none of it where no transaction was ever made."""
    try:
        partitions = await find_partitions(bootstrap_server, settings, STATE_TOPIC, give_up_after)
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return {}
        raise
    settings = {"allow_auto_create_topics": False, **settings}
    records: list[ConsumerRecord] = []
    async with connected(Consumer(bootstrap_server, **settings), give_up_after) as consumer:
        await consumer.assign(partitions)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(partitions)
        with Progress("states read", None) as progress:
            while any([await consumer.position(one) < end for one, end in ends.items()]):
                records += await consumer.poll(POLL_MS)
                progress.advance(len(records))
    return latest_states(records)


@click.group()
@connection_options
def transactions(**_: object) -> None:
    """List and describe transactional ids. Options stand before or after `list` and `describe`."""


def _connection() -> tuple[str, dict[str, Any], float]:
    """Server, settings and --give-up-after: those after the verb, or those before it."""
    context = click.get_current_context()
    assert context.parent is not None
    found = {
        name: (
            context.params[name]
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
            else context.parent.params[name]
        )
        for name in ("bootstrap_server", "command_config", "give_up_after")
    }
    settings = read_properties(found["command_config"])
    return found["bootstrap_server"], settings, found["give_up_after"]


@transactions.command("list")
@connection_options
@click.option("--state", "states", multiple=True, help="Only these states, such as Ongoing.")
@json_option
def list_(*, states: tuple[str, ...], as_json: bool, **_: object) -> None:
    """Every transactional id with its producer id and state."""
    found = run(_states(*_connection()))
    wanted = {state.lower() for state in states}
    rows = [
        (one.transactional_id, one.partition, one.value.producer_id, one.state)
        for _, one in sorted(found.items())
        if not wanted or one.state.lower() in wanted
    ]
    show(LIST_COLUMNS, rows, as_json=as_json)


@transactions.command()
@connection_options
@click.argument("id_", metavar="[TRANSACTIONAL_ID]", required=False)
@click.option("--transactional-id", help="The same as the argument.")
@json_option
def describe(*, id_: str | None, transactional_id: str | None, as_json: bool, **_: object) -> None:
    """One transactional id: epoch, state, timeout and the partitions of its transaction."""
    wanted = transactional_id or id_
    if wanted is None or None not in (transactional_id, id_):
        raise click.UsageError("one transactional id is needed")
    found = run(_states(*_connection()))
    if wanted not in found:
        raise click.ClickException(f"no transactional id {wanted!r}")
    one = found[wanted]
    row = (
        *(one.partition, one.transactional_id, one.value.producer_id, one.value.producer_epoch),
        *(one.state, one.value.transaction_timeout_ms, one.start_time_ms),
        *(one.value.transaction_last_update_timestamp_ms, one.topic_partitions),
    )
    show(DESCRIBE_COLUMNS, [row], as_json=as_json)
