"""kafka-console-producer.sh: checks Kafka's options, and runs our command `oncelog produce`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import click

from oncelog_client.cli.record_lines import LineReader
from oncelog_client.errors import KafkaError
from oncelog_client.kafka_tools.client_conflicts import check_producer
from oncelog_client.kafka_tools.client_settings import PRODUCER, taken
from oncelog_client.kafka_tools.console_commands import (
    Renamed,
    properties_of,
    run_command,
    settings_of,
    words_of,
    words_of_properties,
)
from oncelog_client.kafka_tools.failures import JavaError, java_error, of_client, print_log
from oncelog_client.kafka_tools.options import Given, Option, OptionError, Options
from oncelog_protocol.errors import ErrorCode

_RENAMED: Final = (
    Renamed("producer-property", "command-property"),
    Renamed("producer.config", "command-config"),
    Renamed("property", "reader-property"),
)
# Kafka's defaults of --timeout and --request-timeout-ms.
_TIMEOUTS: Final = {"linger.ms": "1000", "request.timeout.ms": "1500"}
_READER: Final = "org.apache.kafka.tools.LineMessageReader"
# An option with a number -> the setting of the producer. Other options with numbers have no effect.
_NUMBERS: Final = {
    "batch-size": "batch.size",
    "max-block-ms": "max.block.ms",
    "max-memory-bytes": "buffer.memory",
    "message-send-max-retries": "retries",
    "max-partition-memory-bytes": "",
    "metadata-expiry-ms": "metadata.max.age.ms",
    "request-timeout-ms": "request.timeout.ms",
    "retry-backoff-ms": "retry.backoff.ms",
    "socket-buffer-size": "",
    "timeout": "linger.ms",
}

OPTIONS: Final = Options(
    "This tool helps to read data from standard input and publish it to Kafka.",
    [
        Option("batch-size", "Bytes of a batch.", "Integer: size"),
        Option("bootstrap-server", "REQUIRED: a broker.", "String: server to connect to"),
        Option("command-config", "Producer settings.", "String: config file"),
        Option("command-property", "A setting.", "String: producer_prop"),
        Option(
            "compression-codec",
            "none, gzip, snappy, lz4 or zstd.",
            "String: compression-codec",
            is_optional=True,
        ),
        Option("line-reader", "The reader of lines.", "String: reader_class", default=_READER),
        Option("max-block-ms", "Longest wait of a send.", "Long: max block on send"),
        Option("max-memory-bytes", "Memory of the producer.", "Long: total memory in bytes"),
        Option("max-partition-memory-bytes", "No effect.", "Integer: memory in bytes"),
        Option("message-send-max-retries", "Retries of a batch.", "Integer"),
        Option("metadata-expiry-ms", "Age of metadata.", "Long: metadata expiration interval"),
        Option("producer-property", "Former --command-property.", "String: producer_prop"),
        Option("producer.config", "Former --command-config.", "String: config file"),
        Option("property", "Former --reader-property.", "String: prop"),
        Option("reader-config", "Not available.", "String: config file"),
        Option("reader-property", "How a line is read: parse.key=true.", "String: prop"),
        Option("request-required-acks", "0, 1 or all.", "String: request required acks"),
        Option("request-timeout-ms", "Longest wait for a response.", "Integer: request timeout ms"),
        Option("retry-backoff-ms", "Wait before a retry.", "Long"),
        Option("socket-buffer-size", "No effect.", "Integer: size"),
        Option("sync", "Wait for each response."),
        Option("timeout", "Wait of a batch for more records.", "Long: timeout_ms"),
        Option("topic", "REQUIRED: the topic to write to.", "String: topic"),
    ],
)


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code."""
    try:
        given = OPTIONS.parse(arguments)
    except OptionError as error:
        OPTIONS.parse(()).fail(error.message)
    if not arguments:
        given.fail(OPTIONS.about)
    given.end_for_help_or_version()
    given.require("topic")
    if not given.has("bootstrap-server"):
        given.fail("Error while validating the bootstrap address\n")
    for renamed in _RENAMED:
        if given.has(renamed.former) and given.has(renamed.name):
            given.fail(
                f"Options --{renamed.name} and --{renamed.former} cannot be specified together."
            )
    for renamed in _RENAMED:
        if given.has(renamed.former):
            sys.stdout.write(f"Warning: {renamed.warning}\n")
    try:
        return run_command(_command(given), "producer", _Refusals(given))
    except OptionError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    except JavaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KafkaError as error:  # of a record, with --sync
        sys.stderr.write(f"{_of_record(error, given)}\n")
        return 1


class _Refusals:
    """Logs the records that are not written, as Kafka's ErrorLoggingCallback does."""

    def __init__(self, given: Given) -> None:
        self._given = given

    def __call__(self, error: KafkaError, key: int | None, value: int | None) -> None:
        """Log an error. `key` and `value` are sizes in bytes."""
        print_log(
            "ERROR",
            f"Error when sending message to topic {self._given.value('topic')} with key: "
            f"{'null' if key is None else f'{key} bytes'}, value: "
            f"{'null' if value is None else f'{value} bytes'} with error:",
            "org.apache.kafka.clients.producer.internals.ErrorLoggingCallback",
        )
        sys.stderr.write(f"{_of_record(error, self._given)}\n")


def _of_record(error: KafkaError, given: Given) -> JavaError:
    if error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return java_error(error.code, f"Invalid topics: [{given.value('topic')}]")
    return of_client(error)


def _properties(given: Given) -> dict[str, str]:
    """Return the properties of the reader. Raises JavaError for properties that may not be
    equal."""
    properties = properties_of(given, _RENAMED[2], LineReader)
    try:
        LineReader.from_properties(properties)
    except click.UsageError as error:
        raise JavaError("org.apache.kafka.common.KafkaException", error.message) from None
    return properties


def _command(given: Given) -> list[str]:
    """Return the words of `oncelog produce`. Raises JavaError for what only Java can do, and
    OptionError for an invalid number."""
    reader = (given.value("line-reader") or "").rpartition(".")[2]
    if reader != _READER.rpartition(".")[2] or given.has("reader-config"):
        raise JavaError(
            "java.lang.ClassNotFoundException", given.value("line-reader") or "--reader-config"
        )
    words = ["produce", "--kafka-summary", "--topic", given.value("topic") or ""]
    words += ["--bootstrap-server", given.value("bootstrap-server") or ""]
    words += words_of_properties(_properties(given))
    # Kafka's tool compresses by this option only. A property has no effect.
    codec = "none"
    if given.has("compression-codec"):
        codec = given.value("compression-codec") or "gzip"
    flags = [("compression.type", codec)]
    for name, setting in _NUMBERS.items():
        number = given.number(name)
        if number is not None and setting:
            flags.append((setting, str(number)))
    acks = given.value("request-required-acks")
    if acks is not None:
        flags.append(("acks", acks))
    settings = taken(settings_of(given, _RENAMED[1], _RENAMED[0], flags), PRODUCER)
    check_producer(settings)
    if "delivery.timeout.ms" in settings:
        # Our producer compares the setting with these two, which are larger in our client.
        settings = {**_TIMEOUTS, **settings}
    words += words_of(settings)
    if given.has("sync"):
        words.append("--sync")
    return words
