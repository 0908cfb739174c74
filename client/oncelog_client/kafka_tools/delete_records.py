"""kafka-delete-records.sh: deletes the records before an offset of each partition in a file."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from oncelog_client.admin.records import delete_records_of_each
from oncelog_client.cli.options import run
from oncelog_client.errors import KafkaError
from oncelog_client.kafka_tools.connecting import connected, read_settings
from oncelog_client.kafka_tools.failures import JavaError, java_error
from oncelog_client.kafka_tools.json_values import (
    as_array,
    as_integer,
    as_long,
    as_object,
    as_string,
    field,
    parse_json,
)
from oncelog_client.kafka_tools.options import Given, Option, Options
from oncelog_client.values import TopicPartition

_INVALID: Final = "org.apache.kafka.tools.AdminOperationException"
_TWICE: Final = "org.apache.kafka.tools.AdminCommandFailedException"

OPTIONS: Final = Options(
    "This tool helps to delete records of the given partitions down to the specified offset.",
    [
        Option(
            "bootstrap-server", "REQUIRED: a broker.", "String: server(s) to use for bootstrapping"
        ),
        Option("command-config", "Client settings.", "String: command config property file path"),
        Option(
            "offset-json-file",
            'REQUIRED: {"partitions": [{"topic": "orders", "partition": 0, "offset": 7}]}.',
            "String: Offset json file path",
        ),
    ],
)


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code."""
    try:
        given = OPTIONS.parse(arguments)
        if not arguments:
            given.fail(OPTIONS.about)
        given.end_for_help_or_version()
        given.require("bootstrap-server", "offset-json-file")
        settings = read_settings(given.value("command-config"))
        before = _offsets(_read(given.value("offset-json-file") or ""))
        run(_delete(given, settings, before))
    except JavaError as error:
        sys.stderr.write(f"{error.message}\n{error}\n")
        return 1
    return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        raise JavaError("java.io.IOException", f"Unable to read file {path}") from None


def _offsets(text: str) -> dict[TopicPartition, int]:
    """Return the offset of each partition. Raises JavaError for another form of JSON."""
    try:
        parsed = parse_json(text)
    except ValueError:
        raise JavaError(_INVALID, "The input string is not a valid JSON") from None
    version = as_integer(as_object(parsed).get("version", 1))
    if version != 1:
        raise JavaError(_INVALID, f"Not supported version field value {version}")
    if "partitions" not in parsed:
        raise JavaError(_INVALID, "Missing partitions field")
    rows = [
        (
            TopicPartition(as_string(field(row, "topic")), as_integer(field(row, "partition"))),
            as_long(field(row, "offset")),
        )
        for row in as_array(parsed["partitions"])
    ]
    offsets = dict(rows)
    if len(offsets) < len(rows):
        counts = Counter(partition for partition, _ in rows)
        twice = ",".join(str(partition) for partition, count in counts.items() if count > 1)
        raise JavaError(_TWICE, f"Offset json file contains duplicate topic partitions: {twice}")
    return offsets


async def _delete(
    given: Given, settings: Mapping[str, Any], before: Mapping[TopicPartition, int]
) -> None:
    async with connected(given.value("bootstrap-server"), settings, "metadata") as connection:
        sys.stdout.write("Executing records delete operation\n")
        sys.stdout.write("Records delete operation completed:\n")
        done = await delete_records_of_each(connection.cluster, before, connection.timeout_ms)
        for partition, result in done.items():
            shown = (
                f"error: {java_error(result.code)}"
                if isinstance(result, KafkaError)
                else f"low_watermark: {result}"
            )
            sys.stdout.write(f"partition: {partition}\t{shown}\n")
