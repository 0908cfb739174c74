"""kafka-transactions.sh: lists and describes transactions, finds hanging ones, and lists the
producers of a partition. The sub-commands that change something run our command `oncelog
transactions`; `abort` looks for the partition first."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import click

from oncelog_client.admin.topics import describe_topics, list_topics
from oncelog_client.admin.transaction_admin import TransactionAdmin
from oncelog_client.admin.transaction_descriptions import ProducerState
from oncelog_client.admin.transactions import (
    describe_producers,
    describe_transactions,
    list_transactions,
)
from oncelog_client.cli.connecting import ToolSettings
from oncelog_client.cli.hanging import MAX_TIMEOUT_MINUTES, open_transactions, rows_of
from oncelog_client.cli.options import run
from oncelog_client.errors import KafkaError, RetriableError
from oncelog_client.io.clock import monotonic_ms, wall_ms
from oncelog_client.kafka_tools.connecting import Connection, connected, read_settings
from oncelog_client.kafka_tools.failures import (
    TIMEOUT,
    Ended,
    JavaError,
    SettingsError,
    java_error,
    of_client,
)
from oncelog_client.kafka_tools.options import KAFKA_VERSION
from oncelog_client.kafka_tools.sub_commands import Arguments
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.list_transactions import ListTransactionsRequest

_PROG: Final = "kafka-transactions.sh"
# The Java client's names of the first request of each sub-command.
_OF_LEADER: Final = "describeProducers(api=METADATA)"
_FIRST_CALLS: Final = {
    "list": "listTransactions(api=METADATA)",
    "describe": "describeTransactions(api=FIND_COORDINATOR)",
    "find-hanging": "listNodes",
    "abort": _OF_LEADER,
}
_OF_BROKER: Final = "describeProducers(api=DESCRIBE_PRODUCERS)"
_OF_MARKER: Final = "abortTransaction(api=METADATA)"
# A sub-command that runs our command -> the options that our command gets. `abort` looks for the
# partition first.
_OF_OURS: Final = {
    "abort": (
        *("topic", "partition", "start_offset", "producer_id", "producer_epoch"),
        "coordinator_epoch",
    ),
    "forceTerminateTransaction": ("transactional_id",),
}
# A new topic is known to every broker within this time. Kafka's tool waits for an unknown topic
# as long as for a leader: default.api.timeout.ms, a minute.
_UNKNOWN_TOPIC_MS: Final = 5_000


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code."""
    if set(arguments) & {"-v", "--version"}:
        sys.stdout.write(f"{KAFKA_VERSION}\n")
        return 0
    given = _parser().parse_args(arguments)
    missing = _missing(given)
    if missing:
        sys.stderr.write(f"{missing}\n")
        return 1
    try:
        settings = read_settings(given.command_config)
        given.unknown_topic_ms = settings.get("default_api_timeout_ms", _UNKNOWN_TOPIC_MS)
        if given.command in _ACTIONS:
            run(_act(given, settings))
    except SettingsError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    except JavaError as error:
        sys.stderr.write(
            f"{_failure(given)}: {error.message}. Enable debug logging for additional detail.\n"
        )
        return 1
    except click.ClickException as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    return _run_our_command(given, settings) if given.command in _OF_OURS else 0


def _missing(given: argparse.Namespace) -> str:
    """Return Kafka's message for an argument that `abort` or `find-hanging` lacks, or an empty
    string."""
    if given.command == "find-hanging":
        if given.topic is None and given.broker_id is None:
            return (
                "The `find-hanging` command requires either --topic or --broker-id to limit the "
                "scope of the search"
            )
        if given.partition is not None and given.topic is None:
            return "The --partition argument requires --topic to be provided"
    if given.command == "abort" and given.start_offset is None:
        if given.producer_id is None:
            return (
                "The transaction to abort must be identified either with --start-offset (for "
                "brokers on 3.0 or above) or with --producer-id, --producer-epoch, and "
                "--coordinator-epoch (for older brokers)"
            )
        for name in ("producer_epoch", "coordinator_epoch"):
            if getattr(given, name) is None:
                return f"Missing required argument --{name.replace('_', '-')}"
    return ""


def _failure(given: argparse.Namespace) -> str:
    """Return the words of Kafka's tool before the cause of a failure."""
    if given.command == "list":
        return "Failed to list transactions"
    if given.command == "describe":
        return (
            f"Failed to describe transaction state of transactional-id `{given.transactional_id}`"
        )
    if given.command == "find-hanging":
        if given.topic is None:
            return "Failed to list topics"
        if given.partition is None:
            return "Failed to describe 1 topics"
        broker = "Optional.empty" if given.broker_id is None else f"Optional[{given.broker_id}]"
        return f"Failed to describe producers for 1 partitions on broker {broker}"
    place = TopicPartition(given.topic, given.partition)
    if given.command == "abort":
        if given.start_offset is not None:
            return f"Failed to validate producer state for partition {place}"
        return (
            f"Failed to abort transaction AbortTransactionSpec(topicPartition={place}, "
            f"producerId={given.producer_id}, producerEpoch={given.producer_epoch}, "
            f"coordinatorEpoch={given.coordinator_epoch})"
        )
    where = "leader" if given.broker_id is None else f"broker {given.broker_id}"
    return f"Failed to describe producers for partition {place} on {where}"


def _run_our_command(given: argparse.Namespace, settings: dict[str, Any]) -> int:
    from oncelog_client.cli import oncelog

    words = ["transactions", given.command, f"--bootstrap-server={given.bootstrap_server}"]
    for name in _OF_OURS[given.command]:
        value = getattr(given, name)
        if value is not None:
            words.append(f"--{name.replace('_', '-')}={value}")
    code = oncelog.main(
        words, prog_name="oncelog", standalone_mode=False, obj=ToolSettings(settings)
    )
    return code if isinstance(code, int) else 0


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
    for name in ("--broker-id", "--partition"):
        hanging.add_argument(name, type=int, help="Where to look.")
    hanging.add_argument("--topic", help="Where to look.")
    hanging.add_argument(
        "--max-transaction-timeout",
        type=int,
        default=MAX_TIMEOUT_MINUTES,
        help="Minutes without a record.",
    )
    force = commands.add_parser("forceTerminateTransaction", help="Abort an open transaction.")
    force.add_argument(
        *("--transactionalId", "--transactional-id"),
        dest="transactional_id",
        required=True,
        help="The id.",
    )


def _call_of(given: argparse.Namespace) -> str:
    """Return the Java client's name of the tool's first request."""
    if given.command == "abort" and given.start_offset is None:
        return _OF_MARKER
    if given.command in ("describe-producers", "find-hanging") and given.partition is not None:
        return _OF_LEADER if given.broker_id is None else _OF_BROKER
    if given.command == "find-hanging" and given.topic is None:
        return "listTopics"
    return _FIRST_CALLS[given.command]


async def _act(given: argparse.Namespace, settings: Mapping[str, Any]) -> None:
    async with connected(given.bootstrap_server, settings, _call_of(given)) as connection:
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
            "org.apache.kafka.common.errors.TransactionalIdNotFoundException", reason
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


async def _find_hanging(connection: Connection, given: argparse.Namespace) -> None:
    places = await _places(connection, given)
    # As in Kafka, a broker without partitions need not exist.
    found = await open_transactions(_Admin(connection), places, given.broker_id) if places else []
    _print_table(
        (
            "Topic",
            "Partition",
            "ProducerId",
            "ProducerEpoch",
            "CoordinatorEpoch",
            "StartOffset",
            "LastTimestamp",
            "Duration(min)",
        ),
        [
            (*row[:4], -1 if row[4] is None else row[4], *row[5:])
            for row in rows_of(found, given.max_transaction_timeout)
        ],
    )


class _Admin(TransactionAdmin):
    """The methods of our admin client for transactions, on the connection of the tool."""

    def __init__(self, connection: Connection) -> None:
        self._cluster, self._timeout_ms = connection.cluster, connection.timeout_ms


async def _places(connection: Connection, given: argparse.Namespace) -> list[TopicPartition]:
    """Return the partitions in which to look: the given one, or those of the topic, or all. The
    broker, if one is given, has a replica of each."""
    cluster, timeout_ms = connection.cluster, connection.timeout_ms
    if given.partition is not None:
        await _producers(connection, given)
        return [TopicPartition(given.topic, given.partition)]
    topics = [given.topic]
    if given.topic is None:
        topics = [*await list_topics(cluster, timeout_ms, list_internal=True)]
    try:
        described = await describe_topics(cluster, topics, timeout_ms)
    except KafkaError as error:
        raise java_error(error.code) from error
    return [
        TopicPartition(topic, info.partition)
        for topic, description in described.items()
        for info in description.partitions
        if given.broker_id is None or given.broker_id in info.replicas
    ]


async def _look_for_transaction(connection: Connection, given: argparse.Namespace) -> None:
    """Look for the transaction that begins at the offset, or only for the partition's leader. Our
    own command then aborts the transaction."""
    place = TopicPartition(given.topic, given.partition)
    if given.start_offset is None:
        await _find_leader(connection, place, given)
        return
    given.broker_id = None
    rows = await _producers(connection, given)
    if all(row.current_transaction_start_offset != given.start_offset for row in rows):
        sys.stderr.write(
            f"Could not find any open transactions starting at offset {given.start_offset} on "
            f"partition {place}\n"
        )
        raise Ended(1)


async def _producers(
    connection: Connection, given: argparse.Namespace
) -> tuple[ProducerState, ...]:
    """Return the producers that the leader, or the given broker, knows in the partition."""
    partition = TopicPartition(given.topic, given.partition)
    if given.broker_id is None:
        await _find_leader(connection, partition, given)
    try:
        found = await describe_producers(
            connection.cluster, [partition], given.broker_id, connection.timeout_ms
        )
    except KafkaError as error:
        if given.broker_id is None:
            raise
        text = f"Timed out waiting for a node assignment. Call: {_OF_BROKER}"
        raise JavaError(TIMEOUT, text) from error
    return found[partition]


async def _describe_producers(connection: Connection, given: argparse.Namespace) -> None:
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
            for row in await _producers(connection, given)
        ],
    )


async def _find_leader(
    connection: Connection, partition: TopicPartition, given: argparse.Namespace
) -> None:
    """Wait for the partition to have a leader. Raises JavaError with the words of the Java client:
    its call with the number of attempts."""
    cluster, start_ms = connection.cluster, wall_ms()
    timeout_ms = connection.timeout_ms
    started_ms = monotonic_ms()
    cluster.watch({partition.topic})
    tries = 0

    async def attempt() -> None:
        nonlocal tries
        tries += 1
        await cluster.refresh()
        if cluster.metadata.leader(partition) is None:
            raise cluster.metadata.no_leader(partition)

    def is_unknown_for_long(error: RetriableError) -> bool:
        nonlocal timeout_ms
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        timeout_ms = int(given.unknown_topic_ms)
        return monotonic_ms() - started_ms >= timeout_ms

    try:
        await cluster.retry(attempt, connection.timeout_ms, hopeless=is_unknown_for_long)
    except KafkaError as error:
        if error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
            text = f"due to invalid topic `{partition.topic}`"
            raise java_error(
                error.code, f"Failed to fetch metadata for partition {partition} {text}"
            ) from error
        if not isinstance(error, RetriableError):
            raise
        now_ms = wall_ms()
        call = f"callName={_call_of(given)}, deadlineMs={start_ms + timeout_ms}"
        raise JavaError(
            TIMEOUT,
            f"Call({call}, tries={tries}, nextAllowedTryMs={now_ms}) timed out at {now_ms} after "
            f"{tries} attempt(s)",
        ) from error


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
    "find-hanging": _find_hanging,
    "abort": _look_for_transaction,
}
