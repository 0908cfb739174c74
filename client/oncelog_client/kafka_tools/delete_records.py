"""kafka-delete-records.sh: deletes the records before an offset of each partition in a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from oncelog_client.admin.records import delete_records
from oncelog_client.cli.options import run
from oncelog_client.errors import KafkaError
from oncelog_client.kafka_tools.connecting import connected, read_settings
from oncelog_client.kafka_tools.failures import JavaError, java_error
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
        parsed = json.loads(text)
    except ValueError:
        raise JavaError(_INVALID, "The input string is not a valid JSON") from None
    version = parsed.get("version", 1)
    if version != 1:
        raise JavaError(_INVALID, f"Not supported version field value {version}")
    if "partitions" not in parsed:
        raise JavaError(_INVALID, "Missing partitions field")
    offsets: dict[TopicPartition, int] = {}
    for row in parsed["partitions"]:
        partition = TopicPartition(str(row["topic"]), int(row["partition"]))
        if partition in offsets:
            text = f"Offset json file contains duplicate topic partitions: {partition}"
            raise JavaError(_TWICE, text)
        offsets[partition] = int(row["offset"])
    return offsets


async def _delete(
    given: Given, settings: Mapping[str, Any], before: Mapping[TopicPartition, int]
) -> None:
    async with connected(given.value("bootstrap-server"), settings, "metadata") as connection:
        sys.stdout.write("Executing records delete operation\n")
        sys.stdout.write("Records delete operation completed:\n")
        for partition, offset in before.items():
            try:
                done = await delete_records(
                    connection.cluster, {partition: offset}, connection.timeout_ms
                )
                result = f"low_watermark: {done[partition]}"
            except KafkaError as error:
                result = f"error: {java_error(error.code)}"
            sys.stdout.write(f"partition: {partition}\t{result}\n")
