"""kafka-transactions.sh: lists and describes transactions, and the producers of a partition. The
sub-commands that change something, and find-hanging, run our command `oncelog transactions`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from oncelog_client.admin.transactions import (
    describe_producers,
    describe_transactions,
    list_transactions,
)
from oncelog_client.cli.options import run
from oncelog_client.errors import KafkaError
from oncelog_client.io.clock import wall_ms
from oncelog_client.kafka_tools.connecting import Connection, connected, read_settings
from oncelog_client.kafka_tools.failures import JavaError, of_client
from oncelog_client.kafka_tools.options import KAFKA_VERSION
from oncelog_client.kafka_tools.sub_commands import Arguments
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.list_transactions import ListTransactionsRequest

_PROG: Final = "kafka-transactions.sh"


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code."""
    if set(arguments) & {"-v", "--version"}:
        sys.stdout.write(f"{KAFKA_VERSION}\n")
        return 0
    given = _parser().parse_args(arguments)
    if given.command not in _ACTIONS:
        return _run_our_command(arguments)
    try:
        settings = read_settings(given.command_config)
        run(_act(given, settings))
    except JavaError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    return 0


def _run_our_command(arguments: Sequence[str]) -> int:
    from oncelog_client.cli import oncelog

    oncelog(["transactions", *arguments], prog_name="oncelog")
    return 0


def _parser() -> Arguments:
    parser = Arguments(_PROG, "Finds transactions that hang, and ends them.")
    parser.add_argument("-v", "--version", action="store_true", help="Print the version.")
    parser.add_argument("--command-config", metavar="FILE", help="Client settings.")
    parser.add_argument("--bootstrap-server", metavar="host:port", required=True, help="A broker.")
    # argparse4j repeats the required option in the usage of a sub-command.
    prog = f"{_PROG} --bootstrap-server host:port"
    commands = parser.add_subparsers(dest="command", required=True, prog=prog)
    lists = commands.add_parser("list", help="List transactions.")
    lists.add_argument("--duration-filter", type=int, default=-1, help="Shortest duration in ms.")
    lists.add_argument("--transactional-id-pattern", help="An expression for the ids.")
    describe = commands.add_parser("describe", help="Describe a transactional id.")
    describe.add_argument("--transactional-id", required=True, help="The id.")
    producers = commands.add_parser("describe-producers", help="List producers of a partition.")
    producers.add_argument("--broker-id", type=int, help="As this broker knows them.")
    producers.add_argument("--topic", required=True, help="The topic.")
    producers.add_argument("--partition", type=int, required=True, help="The partition.")
    _add_changes(commands)
    return parser


def _add_changes(commands: Any) -> None:
    """Add the sub-commands that our own command runs. Our command checks their arguments."""
    abort = commands.add_parser("abort", help="Abort a hanging transaction.")
    abort.add_argument("--topic", required=True, help="The topic.")
    abort.add_argument("--partition", type=int, required=True, help="The partition.")
    for name in ("--start-offset", "--producer-id", "--producer-epoch", "--coordinator-epoch"):
        abort.add_argument(name, type=int, help="Which transaction.")
    hanging = commands.add_parser("find-hanging", help="Find hanging transactions.")
    for name in ("--broker-id", "--max-transaction-timeout", "--partition"):
        hanging.add_argument(name, type=int, help="Where to look.")
    hanging.add_argument("--topic", help="Where to look.")
    force = commands.add_parser("forceTerminateTransaction", help="Abort an open transaction.")
    force.add_argument("--transactionalId", "--transactional-id", required=True, help="The id.")


async def _act(given: argparse.Namespace, settings: Mapping[str, Any]) -> None:
    async with connected(given.bootstrap_server, settings, given.command) as connection:
        try:
            await _ACTIONS[given.command](connection, given)
        except KafkaError as error:
            raise of_client(error) from error


async def _list(connection: Connection, given: argparse.Namespace) -> None:
    request = ListTransactionsRequest([], [], given.duration_filter, given.transactional_id_pattern)
    found = await list_transactions(connection.cluster, request, None, connection.timeout_ms)
    _print_table(
        ("TransactionalId", "Coordinator", "ProducerId", "TransactionState"),
        [(row.transactional_id, row.coordinator_id, row.producer_id, row.state) for row in found],
    )


async def _describe(connection: Connection, given: argparse.Namespace) -> None:
    name = given.transactional_id
    try:
        found = await describe_transactions(connection.cluster, [name], connection.timeout_ms)
    except KafkaError as error:
        reason = error.message
        if error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            reason = (
                f"DescribeTransactions request for transactionalId `{name}` failed because the ID "
                "could not be found"
            )
        raise JavaError(
            "org.apache.kafka.common.errors.TransactionalIdNotFoundException",
            f"Failed to describe transaction state of transactional-id `{name}`: {reason}. Enable "
            "debug logging for additional detail.",
        ) from error
    row = found[name]
    start_ms = row.transaction_start_time_ms
    _print_table(
        (
            "CoordinatorId",
            "TransactionalId",
            "ProducerId",
            "ProducerEpoch",
            "TransactionState",
            "TransactionTimeoutMs",
            "CurrentTransactionStartTimeMs",
            "TransactionDurationMs",
            "TopicPartitions",
        ),
        [
            (
                row.coordinator_id,
                row.transactional_id,
                row.producer_id,
                row.producer_epoch,
                row.state,
                row.transaction_timeout_ms,
                "None" if start_ms is None else start_ms,
                "None" if start_ms is None else wall_ms() - start_ms,
                ",".join(map(str, sorted(row.topic_partitions))),
            )
        ],
    )


async def _describe_producers(connection: Connection, given: argparse.Namespace) -> None:
    partition = TopicPartition(given.topic, given.partition)
    found = await describe_producers(
        connection.cluster, [partition], given.broker_id, connection.timeout_ms
    )
    _print_table(
        (
            "ProducerId",
            "ProducerEpoch",
            "LatestCoordinatorEpoch",
            "LastSequence",
            "LastTimestamp",
            "CurrentTransactionStartOffset",
        ),
        [
            (
                row.producer_id,
                row.producer_epoch,
                -1 if row.coordinator_epoch is None else row.coordinator_epoch,
                row.last_sequence,
                row.last_timestamp,
                _text(row.current_transaction_start_offset),
            )
            for row in found[partition]
        ],
    )


def _text(number: int | None) -> str:
    return "None" if number is None else str(number)


def _print_table(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print the columns, each as wide as its widest value and with a tab at its end."""
    lines = [list(heading), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heading))]
    for line in lines:
        cells = (f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True))
        sys.stdout.write("".join(cells) + "\n")


_ACTIONS: Final[dict[str, Callable[[Connection, argparse.Namespace], Awaitable[None]]]] = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
}
