"""kafka-console-consumer.sh: checks Kafka's options, and runs our command `oncelog consume`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from oncelog_client.cli.record_lines import LineWriter
from oncelog_client.kafka_tools.client_conflicts import check_consumer, check_group_protocol
from oncelog_client.kafka_tools.client_settings import CONSUMER, taken
from oncelog_client.kafka_tools.connecting import read_pairs
from oncelog_client.kafka_tools.console_commands import (
    Renamed,
    properties_of,
    run_command,
    settings_of,
    words_of,
    words_of_properties,
)
from oncelog_client.kafka_tools.failures import Ended, JavaError, SettingsError, print_log
from oncelog_client.kafka_tools.options import Given, Option, OptionError, Options

_RENAMED: Final = (
    Renamed("consumer-property", "command-property"),
    Renamed("consumer.config", "command-config"),
    Renamed("property", "formatter-property"),
)
# The formatters and deserializers with the output that `oncelog consume` has. Others are Java
# programs.
_FORMATTER: Final = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
_DESERIALIZERS: Final = (
    "org.apache.kafka.common.serialization.StringDeserializer",
    "org.apache.kafka.common.serialization.ByteArrayDeserializer",
)
# Options that have the same name and meaning in `oncelog consume`.
_SAME: Final = ("topic", "include", "partition", "group")

OPTIONS: Final = Options(
    "This tool helps to read data from Kafka topics and outputs it to standard output.",
    [
        Option("bootstrap-server", "REQUIRED: a broker.", "String: server to connect to"),
        Option("command-config", "Consumer settings.", "String: config file"),
        Option("command-property", "A setting.", "String: consumer_prop"),
        Option("consumer-property", "Former --command-property.", "String: consumer_prop"),
        Option("consumer.config", "Former --command-config.", "String: config file"),
        Option("enable-systest-events", "No effect."),
        Option("formatter", "The format of a record.", "String: class", default=_FORMATTER),
        Option("formatter-config", "Not available.", "String: config file"),
        Option("formatter-property", "What is printed: print.key=true.", "String: prop"),
        Option("from-beginning", "Start at the first record."),
        Option("group", "Read as a member of a group.", "String: consumer group id"),
        Option("include", "Topics by an expression.", "String: Java regex (String)"),
        Option(
            "isolation-level",
            "read_committed: no aborted records.",
            "String",
            default="read_uncommitted",
        ),
        Option("key-deserializer", "StringDeserializer.", "String: deserializer for key"),
        Option("max-messages", "End after so many records.", "Integer: num_messages"),
        Option("offset", "earliest, latest or a number.", "String: consume offset", "latest"),
        Option("partition", "Read only this partition.", "Integer: partition"),
        Option("property", "Former --formatter-property.", "String: prop"),
        Option("skip-message-on-error", "No effect."),
        Option("timeout-ms", "End after a time without a record.", "Long: timeout_ms"),
        Option("topic", "The topic to read.", "String: topic"),
        Option("value-deserializer", "StringDeserializer.", "String: deserializer for values"),
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
    _check(given)
    read_pairs(given.value(_RENAMED[1].former) or given.value(_RENAMED[1].name))
    for renamed in _RENAMED:
        if given.has(renamed.former):
            sys.stdout.write(f"Option {renamed.warning}\n")
    try:
        return run_command(_command(given), "consumer")
    except SettingsError as error:
        return _logged(error)


def _logged(error: SettingsError) -> int:
    """Log an error as Kafka's tool does, and return the exit code."""
    logger = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    print_log("ERROR", "Unknown error when running consumer: ", logger)
    sys.stderr.write(f"{error}\n")
    return 1


def _check(given: Given) -> None:
    """End the tool for options that do not fit together, in the order of Kafka's checks."""
    if given.has("topic") == given.has("include"):
        given.fail("Exactly one of the following arguments is required: [topic], [include]")
    given.require("bootstrap-server")
    given.number("partition")
    if given.has("partition") and not given.has("topic"):
        given.fail("The topic is required when partition is specified.")
    if given.has("offset"):
        if not given.has("partition"):
            given.fail("The partition is required when offset is specified.")
        if given.has("from-beginning"):
            given.fail("Options from-beginning and offset cannot be specified together.")
        _check_offset(given)
    for renamed in _RENAMED:
        if given.has(renamed.former) and given.has(renamed.name):
            given.fail(
                f"Options --{renamed.former} and --{renamed.name} cannot be specified together."
            )


def _check_offset(given: Given) -> None:
    text = given.value("offset") or ""
    if text.lower() not in ("earliest", "latest") and not text.isdecimal():
        given.fail(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', "
            "'latest', or a non-negative long."
        )


def _check_start(given: Given, pairs: Sequence[tuple[str, str]]) -> None:
    """End the tool if `--from-beginning` contradicts the setting `auto.offset.reset`."""
    reset = dict(pairs).get("auto.offset.reset", "earliest").strip()
    if given.has("from-beginning") and reset != "earliest":
        sys.stderr.write(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', "
            "please remove one option\n"
        )
        raise Ended(1)


def _check_group(given: Given, pairs: Sequence[tuple[str, str]]) -> None:
    """End the tool if the option and the settings name several groups, or a group and a
    partition."""
    in_file = len(read_pairs(given.value(_RENAMED[1].former) or given.value(_RENAMED[1].name)))
    places = (dict(pairs[:in_file]), dict(pairs[in_file:]))
    groups = {settings["group.id"].strip() for settings in places if "group.id" in settings}
    if given.has("group"):
        groups.add(given.value("group") or "")
    if len(groups) > 1:
        named = "', '".join(sorted(groups))
        given.fail(
            "The group ids provided in different places (directly using '--group', via "
            "'--consumer-property', or via '--consumer.config') do not match. "
            f"Detected group ids: '{named}'"
        )
    if groups and given.has("partition"):
        given.fail("Options group and partition cannot be specified together.")


def _command(given: Given) -> list[str]:
    """Return the words of `oncelog consume`. Raises JavaError for what only Java can do."""
    formatter = (given.value("formatter") or "").rpartition(".")[2]
    if formatter != _FORMATTER.rpartition(".")[2] or given.has("formatter-config"):
        raise JavaError(
            "java.lang.ClassNotFoundException", given.value("formatter") or "--formatter-config"
        )
    for name in ("key-deserializer", "value-deserializer"):
        text = given.value(name)
        if text is not None and text not in _DESERIALIZERS:
            raise JavaError("java.lang.ClassNotFoundException", text)
    words = ["consume", "--kafka-summary", "--bootstrap-server"]
    words.append(given.value("bootstrap-server") or "")
    flags = [("isolation.level", given.value("isolation-level") or "")]
    pairs = settings_of(given, _RENAMED[1], _RENAMED[0], flags)
    _check_start(given, pairs)
    _check_group(given, pairs)
    settings = taken(pairs, CONSUMER)
    check_group_protocol(pairs)
    check_consumer(settings)
    words += words_of(settings)
    words += words_of_properties(properties_of(given, _RENAMED[2], LineWriter))
    for name in _SAME:
        if given.has(name):
            words += [f"--{name}", given.value(name) or ""]
    if given.has("offset"):
        words += ["--offset", (given.value("offset") or "").lower()]
    if given.has("from-beginning"):
        words.append("--from-beginning")
    most, timeout_ms = given.number("max-messages"), given.number("timeout-ms")
    if most is not None and most != -1:  # for Kafka's tool only -1 is no limit
        words.append(f"--max-messages={max(most, 0)}")
    if timeout_ms is not None and timeout_ms >= 0:
        # Kafka's tool ends when more than the timeout has passed, in milliseconds.
        words.append(f"--timeout-ms={max(timeout_ms, 1)}")
    return words
