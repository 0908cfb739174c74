"""kafka-get-offsets.sh: offsets of partitions, by time."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from oncelog_client.cli.options import run
from oncelog_client.errors import KafkaError
from oncelog_client.io.log_offsets import list_offsets_of_each
from oncelog_client.kafka_tools.connecting import connected, read_settings
from oncelog_client.kafka_tools.failures import JavaError, SettingsError
from oncelog_client.kafka_tools.options import Given, Option, OptionError, Options
from oncelog_client.kafka_tools.partition_patterns import PartitionPattern, patterns_of
from oncelog_client.kafka_tools.topic_names import listed
from oncelog_client.values import TopicPartition

_ABOUT: Final = "An interactive shell for getting topic-partition offsets."
# A name of --time -> the timestamp in ListOffsets (KIP-79, KIP-734, KIP-405, KIP-1005, KIP-1279)
_TIMES: Final = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
_SHOWN_TIMES: Final = " / ".join(f"{number} or {name}" for name, number in _TIMES.items())

OPTIONS: Final = Options(
    _ABOUT,
    [
        Option("bootstrap-server", "REQUIRED. A broker.", "String: HOST1:PORT1,...,HOST3:PORT3"),
        Option("command-config", "Client settings.", "String: config file"),
        Option("exclude-internal-topics", "Leave internal topics out."),
        Option("partitions", "Numbers of partitions, for --topic.", "String: partition ids"),
        Option("time", "Which offset.", f"String: <timestamp> / {_SHOWN_TIMES}", default="latest"),
        Option("topic", "A topic, or a regular expression.", "String: topic"),
        Option(
            "topic-partitions",
            "Topics with numbers or ranges of partitions.",
            "String: topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3",
        ),
    ],
)


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code."""
    try:
        if not arguments:
            OPTIONS.parse(()).fail(_ABOUT)
        given = OPTIONS.parse(arguments)
        given.end_for_help_or_version()
        given.require("bootstrap-server")
        patterns = _patterns(given)
        timestamp = _timestamp(given.value("time") or "")
        settings = read_settings(given.value("command-config"))
        offsets = run(_offsets(given, settings, patterns, timestamp))
    except JavaError as error:
        sys.stderr.write(f"Error occurred: {error.message}\n")
        if isinstance(error, SettingsError) or not isinstance(error, OptionError | TerseError):
            sys.stderr.write(f"{error}\n")
        return 1
    for partition, offset in sorted(offsets.items(), key=lambda item: str(item[0])):
        sys.stdout.write(f"{partition.topic}:{partition.partition}:{offset}\n")
    return 0


class TerseError(JavaError):
    """An error that Kafka's tool prints without its class."""

    def __init__(self, message: str) -> None:
        super().__init__("org.apache.kafka.tools.TerseException", message)


def _timestamp(text: str) -> int:
    known = _TIMES.get(text)
    if known is not None:
        return known
    try:
        return int(text)
    except ValueError:
        raise TerseError(
            f"Malformed time argument {text}. Please use {_SHOWN_TIMES}, or a specified long "
            "format timestamp"
        ) from None


def _patterns(given: Given) -> list[PartitionPattern]:
    if given.has("topic-partitions"):
        if given.has("topic") or given.has("partitions"):
            raise TerseError("--topic-partitions cannot be used with --topic or --partitions")
        return patterns_of(given.value("topic-partitions") or "")
    text = given.value("partitions")
    try:
        wanted = frozenset(map(int, text.split(","))) if text else None
    except ValueError:
        raise TerseError(
            "--partitions expects a comma separated list of numeric partition ids, but received: "
            f"{text}"
        ) from None
    return [PartitionPattern.of_topic(given.value("topic"), wanted)]


async def _offsets(
    given: Given,
    settings: Mapping[str, Any],
    patterns: Sequence[PartitionPattern],
    timestamp: int,
) -> dict[TopicPartition, int]:
    """Return the offsets of the partitions that match. A partition without an offset is left out.
    Raises JavaError."""
    async with connected(given.value("bootstrap-server"), settings, "listTopics") as connection:
        partitions = [
            TopicPartition(topic.name, row.partition_index)
            for topic in await listed(connection)
            if topic.name and not (topic.is_internal and given.has("exclude-internal-topics"))
            for row in topic.partitions
            if any(pattern.matches(topic.name, row.partition_index) for pattern in patterns)
        ]
        if not partitions:
            raise TerseError("Could not match any topic-partitions with the specified filters")
        found = await list_offsets_of_each(
            connection.cluster,
            dict.fromkeys(partitions, timestamp),
            connection.timeout_ms,
            read_committed=False,
        )
        for partition in partitions:
            error = found.get(partition)
            if isinstance(error, KafkaError):
                sys.stderr.write(
                    f"Skip getting offsets for topic-partition {partition} due to error: {error}\n"
                )
        return {
            partition: row.offset
            for partition, row in found.items()
            if not isinstance(row, KafkaError) and row.offset >= 0
        }
