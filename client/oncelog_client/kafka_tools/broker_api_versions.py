"""kafka-broker-api-versions.sh: the versions of the APIs that each broker speaks."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from oncelog_client.cli.options import run
from oncelog_client.errors import KafkaError, RetriableError
from oncelog_client.kafka_tools.connecting import Connection, connected, read_settings
from oncelog_client.kafka_tools.failures import JavaError, check
from oncelog_client.kafka_tools.kafka_apis import KafkaApi, kafka_apis
from oncelog_client.kafka_tools.options import Option, Options
from oncelog_client.values import Node
from oncelog_protocol import __version__
from oncelog_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)

OPTIONS: Final = Options(
    "This tool helps to retrieve broker version information.",
    [
        Option(
            "bootstrap-server", "REQUIRED: a broker.", "String: server(s) to use for bootstrapping"
        ),
        Option("command-config", "Client settings.", "String: command config property file"),
    ],
)
# A health check needs a quick response.
_TIMEOUT_MS: Final = 5_000


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code."""
    try:
        given = OPTIONS.parse(arguments)
        given.end_for_help_or_version()
        given.require("bootstrap-server")
        settings = {"default_api_timeout_ms": _TIMEOUT_MS} | read_settings(
            given.value("command-config")
        )
        run(_print_versions(given.value("bootstrap-server") or "", settings))
    except JavaError as error:
        sys.stderr.write(f"{error.message}\n{error}\n")
        return 1
    return 0


async def _print_versions(servers: str, settings: Mapping[str, Any]) -> None:
    try:
        async with connected(servers, settings, "", fail_fast=True) as connection:
            for node in sorted(connection.cluster.metadata.brokers.values()):
                sys.stdout.write(f"{_shown(node)} -> ")
                try:
                    spoken = await _spoken(connection, node.node_id)
                    sys.stdout.write(f"{versions_text(spoken)}\n")
                except (JavaError, KafkaError) as error:
                    sys.stdout.write(f"ERROR: {error}\n")
    except RetriableError as error:
        nodes = [_unnamed(address) for address in servers.split(",")]
        raise JavaError(
            "java.lang.RuntimeException", f"Request METADATA failed on brokers [{', '.join(nodes)}]"
        ) from error


async def _spoken(connection: Connection, node_id: int) -> Sequence[ApiVersion]:
    request = ApiVersionsRequest(
        client_software_name="oncelog", client_software_version=__version__
    )
    response = await connection.cluster.call(node_id, request, ApiVersionsResponse)
    check(response.error_code)
    return response.api_keys


def _shown(node: Node) -> str:
    rack = "null" if node.rack is None else node.rack
    return f"{node.host}:{node.port} (id: {node.node_id} rack: {rack} isFenced: false)"


def _unnamed(address: str) -> str:
    return f"{address.strip()} (id: -1 rack: null isFenced: false)"


def versions_text(spoken: Sequence[ApiVersion]) -> str:
    """Return the APIs of a broker as Java's NodeApiVersions prints them: first the APIs that the
    Java client knows, then the others."""
    by_key = {row.api_key: row for row in spoken}
    known = kafka_apis()
    lines = [_line(api, by_key.get(key)) for key, api in sorted(known.items())]
    lines += [
        f"UNKNOWN({row.api_key}): {_range(row)}"
        for key, row in sorted(by_key.items())
        if key not in known
    ]
    return "(\n\t" + ",\n\t".join(lines) + "\n)"


def _line(api: KafkaApi, row: ApiVersion | None) -> str:
    name = f"{api.name}({api.key}): "
    if row is None:
        return f"{name}UNSUPPORTED"
    usable = min(api.latest, row.max_version)
    if row.max_version < api.oldest:
        state = "unusable: node too old"
    elif row.min_version > api.latest:
        state = "unusable: node too new"
    else:
        state = f"usable: {usable}"
    return f"{name}{_range(row)} [{state}]"


def _range(row: ApiVersion) -> str:
    if row.min_version == row.max_version:
        return str(row.min_version)
    return f"{row.min_version} to {row.max_version}"
