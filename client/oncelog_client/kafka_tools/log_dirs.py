"""kafka-log-dirs.sh: the sizes of the partitions in the data directories of brokers, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from oncelog_client.cli.options import run
from oncelog_client.kafka_tools.connecting import Connection, connected, read_settings
from oncelog_client.kafka_tools.failures import Ended, JavaError, check, java_error
from oncelog_client.kafka_tools.options import Given, Option, Options
from oncelog_protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

OPTIONS: Final = Options(
    "This tool helps to query log directory usage on the specified brokers.",
    [
        Option(
            "bootstrap-server",
            "REQUIRED: a broker.",
            "String: The server(s) to use for bootstrapping",
        ),
        Option("broker-list", "Ids of brokers; all by default.", "String: Broker list", default=""),
        Option("command-config", "Client settings.", "String: Admin client property file"),
        Option("describe", "Print the directories."),
        Option("topic-list", "Topics; all by default.", "String: Topic list", default=""),
    ],
)


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code."""
    try:
        given = OPTIONS.parse(arguments)
        if not arguments:
            given.fail(OPTIONS.about)
        given.end_for_help_or_version()
        given.require("bootstrap-server", "describe")
        brokers = _numbers(given.value("broker-list") or "")
        settings = read_settings(given.value("command-config"))
        run(_describe(given, settings, brokers))
    except JavaError as error:
        sys.stderr.write(f"{error.message}\n{error}\n")
        return 1
    return 0


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in _words(text)]
    except ValueError:
        number = next(word for word in _words(text) if not word.isdecimal())
        message = f'For input string: "{number}"'
        raise JavaError("java.lang.NumberFormatException", message) from None


async def _describe(given: Given, settings: Mapping[str, Any], wanted: Sequence[int]) -> None:
    async with connected(given.value("bootstrap-server"), settings, "describeCluster") as found:
        existing = sorted(found.cluster.metadata.brokers)
        missing = [broker for broker in wanted if broker not in existing]
        if missing:
            sys.stderr.write(
                "ERROR: The given brokers do not exist from --broker-list: "
                f"{','.join(map(str, missing))}. Current existent brokers: "
                f"{','.join(map(str, existing))}\n"
            )
            raise Ended(1)
        brokers = list(wanted) or existing
        sys.stdout.write("Querying brokers for log directories information\n")
        topics = _words(given.value("topic-list") or "")
        rows = [await _broker(found, broker, topics) for broker in brokers]
        sys.stdout.write(
            "Received log directory information from brokers "
            f"{','.join(map(str, brokers))}\n"
            f"{json.dumps({'brokers': rows, 'version': 1}, separators=(',', ':'))}\n"
        )


async def _broker(connection: Connection, broker: int, topics: Sequence[str]) -> dict[str, Any]:
    """Return the data directories of a broker, in the form of the tool's JSON."""
    request = DescribeLogDirsRequest(topics=None)
    response = await connection.call_node(broker, request, DescribeLogDirsResponse)
    check(response.error_code)
    directories = [
        {
            "partitions": [
                {
                    "partition": f"{topic.name}-{row.partition_index}",
                    "size": row.partition_size,
                    "offsetLag": row.offset_lag,
                    "isFuture": row.is_future_key,
                }
                for topic in directory.topics
                if not topics or topic.name in topics
                for row in topic.partitions
            ],
            "error": _error(directory.error_code),
            "logDir": directory.log_dir,
        }
        for directory in response.results
    ]
    return {"broker": broker, "logDirs": directories}


def _error(code: int) -> str | None:
    return str(java_error(code).java_class) if code else None
