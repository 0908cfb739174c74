"""kafka-cluster.sh: the id and the brokers of a cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from oncelog_client.cli.options import run
from oncelog_client.kafka_tools.connecting import Connection, connected, read_settings
from oncelog_client.kafka_tools.failures import JavaError, SettingsError, check
from oncelog_client.kafka_tools.sub_commands import Arguments
from oncelog_protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from oncelog_protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

_NO_CONTROLLERS: Final = (
    "oncelog has no listener for controllers: use --bootstrap-server instead of "
    "--bootstrap-controller"
)


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code."""
    given = _parser().parse_args(arguments)
    if given.bootstrap_controller is not None:
        sys.stderr.write(f"{_NO_CONTROLLERS}\n")
        return 1
    try:
        settings = read_settings(given.command_config or given.config)
        run(_act(given, settings))
    except SettingsError as error:
        sys.stderr.write(f"{error.message}\n{error}\n")
        return 1
    except JavaError as error:
        sys.stderr.write(f"{error}\njava.util.concurrent.ExecutionException: {error}\n")
        return 1
    return 0


def _parser() -> Arguments:
    parser = Arguments("kafka-cluster", "The Kafka cluster tool.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, about in (
        ("cluster-id", "Print the id of the cluster."),
        ("unregister", "Unregister a broker."),
        ("list-endpoints", "Print the addresses of the brokers."),
    ):
        command = commands.add_parser(name, help=about)
        where = command.add_mutually_exclusive_group(required=True)
        where.add_argument("--bootstrap-server", "-b", help="A broker.")
        where.add_argument("--bootstrap-controller", "-C", help="A controller.")
        command.add_argument("--config", help="The former name of --command-config.")
        command.add_argument("--command-config", "-c", help="Client settings.")
        if name == "unregister":
            command.add_argument("--id", "-i", type=int, required=True, help="A broker's id.")
        if name == "list-endpoints":
            command.add_argument("--include-fenced-brokers", action="store_true")
    return parser


async def _act(given: argparse.Namespace, settings: Mapping[str, Any]) -> None:
    async with connected(given.bootstrap_server, settings, "listNodes") as connection:
        await _COMMANDS[given.command](connection, given)


async def _print_id(connection: Connection, given: argparse.Namespace) -> None:
    described = await _described(connection)
    sys.stdout.write(f"Cluster ID: {described.cluster_id}\n")


async def _unregister(connection: Connection, given: argparse.Namespace) -> None:
    response = await connection.call_any(
        UnregisterBrokerRequest(given.id), UnregisterBrokerResponse
    )
    check(response.error_code, response.error_message)
    sys.stdout.write(f"Broker {given.id} is no longer registered.\n")


async def _print_endpoints(connection: Connection, given: argparse.Namespace) -> None:
    described = await _described(connection, with_fenced=given.include_fenced_brokers)
    hosts = [row.host for row in described.brokers]
    host = max(map(len, hosts), default=0)
    racks = [str(row.rack or "null") for row in described.brokers]
    rack = max(10, *map(len, racks))
    line = f"{{:<10}} {{:<{host}}} {{:<10}} {{:<{rack}}} {{:<10}} {{:<15}}\n"
    sys.stdout.write(line.format("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"))
    for row, shown in zip(described.brokers, racks, strict=True):
        state = "fenced" if row.is_fenced else "unfenced"
        sys.stdout.write(line.format(row.broker_id, row.host, row.port, shown, state, "broker"))


async def _described(
    connection: Connection, *, with_fenced: bool = False
) -> DescribeClusterResponse:
    request = DescribeClusterRequest(include_fenced_brokers=with_fenced)
    response = await connection.call_any(request, DescribeClusterResponse)
    check(response.error_code, response.error_message)
    return response


_COMMANDS: Final = {
    "cluster-id": _print_id,
    "unregister": _unregister,
    "list-endpoints": _print_endpoints,
}
