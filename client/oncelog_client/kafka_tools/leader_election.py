"""kafka-leader-election.sh: elects the preferred leaders of partitions, or any leaders."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from oncelog_client.admin.elections import ElectionType, elect_leaders
from oncelog_client.cli.options import run
from oncelog_client.errors import KafkaError
from oncelog_client.kafka_tools.connecting import connected, read_settings
from oncelog_client.kafka_tools.failures import TIMEOUT, JavaError, java_error, of_client
from oncelog_client.kafka_tools.json_values import (
    JsonError,
    as_array,
    as_integer,
    as_object,
    as_string,
    field,
    parse_json,
)
from oncelog_client.kafka_tools.options import Given, Option, OptionError, Options
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode

_COMMAND_FAILED: Final = "org.apache.kafka.tools.AdminCommandFailedException"
_OPERATION_FAILED: Final = "org.apache.kafka.tools.AdminOperationException"
_RUNTIME: Final = "java.lang.RuntimeException"
# The tool's own time limit, if the settings have none.
_TIMEOUT_MS: Final = 30_000
# The options that choose the partitions.
_CHOICES: Final = ("topic", "all-topic-partitions", "path-to-json-file")

OPTIONS: Final = Options(
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections "
    "supported are preferred replicas and unclean replicas.",
    [
        Option("admin.config", "The former name of --command-config.", "String: config file"),
        Option("all-topic-partitions", "Elect the leaders of all partitions that need it."),
        Option("bootstrap-server", "REQUIRED: a broker.", "String: host:port"),
        Option("command-config", "Client settings.", "String: Config file"),
        Option(
            "election-type",
            "REQUIRED: preferred (the first replica) or unclean (any; records may be lost).",
            "[PREFERRED,UNCLEAN]: election type",
        ),
        Option("partition", "The partition, with --topic.", "Integer: partition id"),
        Option(
            "path-to-json-file",
            'The partitions: {"partitions": [{"topic": "orders", "partition": 0}]}.',
            "String: Path to JSON file",
        ),
        Option("topic", "The topic, with --partition.", "String: topic name"),
    ],
)


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code."""
    try:
        given = OPTIONS.parse(arguments)
        if not arguments:
            given.fail(OPTIONS.about)
        given.end_for_help_or_version()
        given.refuse_with("admin.config", ("command-config",))
        _check(given)
        kind = _kind(given.value("election-type") or "")
        chosen = _chosen(given)
        settings = {"default_api_timeout_ms": _TIMEOUT_MS} | read_settings(
            given.value("command-config") or given.value("admin.config")
        )
        run(_elect(given.value("bootstrap-server"), settings, kind, chosen))
    except JavaError as error:
        sys.stderr.write(f"{error.message}\n{error}\n")
        return 1
    return 0


def _check(given: Given) -> None:
    """Raise JavaError unless the options fit together."""
    missing = [name for name in ("bootstrap-server", "election-type") if not given.has(name)]
    if missing:
        raise _failed(f"Missing required option(s): {', '.join(missing)}")
    if sum(map(given.has, _CHOICES)) != 1:
        raise _failed(
            f"One and only one of the following options is required: {', '.join(_CHOICES)}"
        )
    if given.has("topic") and not given.has("partition"):
        raise _failed("Missing required option(s): partition")
    if given.has("partition") and not given.has("topic"):
        raise _failed("Option partition is only allowed if topic is used")


def _kind(text: str) -> ElectionType:
    """Return the type of election. Raises OptionError for another word."""
    try:
        return ElectionType[text.upper()]
    except KeyError:
        raise OptionError(
            "joptsimple.OptionArgumentConversionException",
            f"Cannot parse argument '{text}' of option election-type",
        ) from None


def _chosen(given: Given) -> list[TopicPartition] | None:
    """Return the chosen partitions, or None for all."""
    path = given.value("path-to-json-file")
    if path is not None:
        return _partitions(_read(path))
    topic, partition = given.value("topic"), given.number("partition")
    if topic is None or partition is None:
        return None
    return [TopicPartition(topic, partition)]


# --- the file


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        message = f"java.io.IOException: Unable to read file {path}"
        raise JavaError(_RUNTIME, message) from None


def _partitions(text: str) -> list[TopicPartition]:
    """Return the partitions in a file. Raises JavaError for another form of JSON."""
    try:
        parsed = parse_json(text)
    except ValueError:
        raise JavaError(_OPERATION_FAILED, "Replica election data is empty") from None
    try:
        rows = _rows(parsed)
    except JsonError as error:
        raise JavaError(_RUNTIME, str(error)) from None
    twice = sorted({row for row in rows if rows.count(row) > 1})
    if twice:
        names = ", ".join(map(str, twice))
        message = f"Replica election data contains duplicate partitions: [{names}]"
        raise JavaError(_OPERATION_FAILED, message)
    return rows


def _rows(parsed: Any) -> list[TopicPartition]:
    if "partitions" not in as_object(parsed):
        message = 'Replica election data is missing "partitions" field'
        raise JavaError(_OPERATION_FAILED, message)
    return [
        TopicPartition(as_string(field(row, "topic")), as_integer(field(row, "partition")))
        for row in as_array(parsed["partitions"])
    ]


# --- the election


async def _elect(
    servers: str | None,
    settings: Mapping[str, Any],
    kind: ElectionType,
    chosen: Collection[TopicPartition] | None,
) -> None:
    try:
        async with connected(servers, settings, "electLeaders") as connection:
            results = await elect_leaders(connection.cluster, kind, chosen, connection.timeout_ms)
    except KafkaError as error:
        raise _unmade(of_client(error)) from error
    except JavaError as error:
        raise _unmade(error) from error
    _print(kind, results)


def _unmade(error: JavaError) -> JavaError:
    """Return the exception of a request without results. Two reasons have a line of their own."""
    denied = java_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED).java_class
    message = {
        TIMEOUT: "Timeout waiting for election results",
        denied: "Not authorized to perform leader election",
    }.get(error.java_class)
    if message is None:
        return error
    sys.stdout.write(f"{message}\n")
    return _failed(message)


def _print(kind: ElectionType, results: Mapping[TopicPartition, KafkaError | None]) -> None:
    """Print the results. Raises JavaError if a leader could not be elected."""
    elected = [name for name, error in results.items() if error is None]
    not_needed = [name for name, error in results.items() if _is_not_needed(error)]
    if elected:
        sys.stdout.write(
            f"Successfully completed leader election ({kind.name}) for partitions "
            f"{_names(elected)}\n"
        )
    if not_needed:
        sys.stdout.write(f"Valid replica already elected for partitions {_names(not_needed)}\n")
    failed = {
        name: error
        for name, error in results.items()
        if error is not None and not _is_not_needed(error)
    }
    for name, error in failed.items():
        sys.stdout.write(
            f"Error completing leader election ({kind.name}) for partition: {name}: "
            f"{of_client(error)}\n"
        )
    if failed:
        raise _failed(f"{len(failed)} replica(s) could not be elected")


def _names(names: Sequence[TopicPartition]) -> str:
    return ", ".join(map(str, names))


def _is_not_needed(error: KafkaError | None) -> bool:
    return error is not None and error.code == ErrorCode.ELECTION_NOT_NEEDED


def _failed(message: str) -> JavaError:
    return JavaError(_COMMAND_FAILED, message)
