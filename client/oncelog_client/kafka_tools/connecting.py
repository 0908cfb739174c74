"""Connects a tool to a cluster. A tool waits up to a minute for a broker that is not there yet, as
Kafka's tools do, because scripts start a tool together with the broker."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from oncelog_client.cli.options import parse_servers, setting_types, typed_settings
from oncelog_client.cli.properties_file import PropertiesError, Property, parse_properties
from oncelog_client.connect_failures import ConnectCause, ConnectFailure
from oncelog_client.core.client_config import AdminConfig, admin_config
from oncelog_client.core.security_settings import is_security
from oncelog_client.errors import AuthenticationError, ConfigError, KafkaError, RetriableError
from oncelog_client.io.cluster import Cluster
from oncelog_client.kafka_tools.failures import (
    TIMEOUT,
    JavaError,
    SettingsError,
    java_error,
    of_client,
    print_log,
)

T = TypeVar("T")

CONFIG_ERROR: Final = "org.apache.kafka.common.config.ConfigException"
NO_FILE: Final = "java.nio.file.NoSuchFileException"
NOT_STARTED: Final = (
    "org.apache.kafka.common.KafkaException",
    "Failed to create new KafkaAdminClient",
)
# Kafka's error for a certificate that one side does not trust, and its message.
SSL_AUTHENTICATION: Final = (
    "org.apache.kafka.common.errors.SslAuthenticationException",
    "SSL handshake failed",
)
# After this time without a connection the tool prints the reason.
_SILENCE_S: Final = 1.0
_CONNECTS: Final = "org.apache.kafka.clients.NetworkClient"


class Connection:
    """The cluster of a tool. Its methods raise JavaError."""

    def __init__(self, cluster: Cluster, timeout_ms: int) -> None:
        self.cluster = cluster
        self.timeout_ms = timeout_ms

    async def retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the first attempt that succeeds. An attempt fails for good with a
        JavaError, or with a KafkaError that is not retriable."""
        try:
            return await self.cluster.retry(attempt, self.timeout_ms)
        except KafkaError as error:
            raise of_client(error) from error

    async def call_any(self, request: object, response: type[T]) -> T:
        """Return the response of any broker."""
        return await self.retry(lambda: self.cluster.call_any(request, response))

    async def call_controller(self, request: object, response: type[T]) -> T:
        """Return the response of the controller."""
        return await self.retry(lambda: self.cluster.call_controller(request, response))

    async def call_node(self, node_id: int, request: object, response: type[T]) -> T:
        """Return the response of a broker."""
        return await self.retry(lambda: self.cluster.call(node_id, request, response))


@asynccontextmanager
async def connected(
    servers: str | None,
    settings: Mapping[str, Any],
    first_call: str,
    *,
    fail_fast: bool = False,
    timeout_ms: int | None = None,
) -> AsyncIterator[Connection]:
    """Connect to a cluster by its addresses, with the settings of `read_settings`. Raises
    JavaError. The error of a timeout names `first_call`: the Java client's name of the tool's first
    request. `timeout_ms`: the limit of each call; the default is the client's
    `default_api_timeout_ms`."""
    client = await _configured(servers or "", settings)
    cluster = Cluster(client, auto_create=False)
    limit_ms = client.default_api_timeout_ms if timeout_ms is None else timeout_ms
    if fail_fast:
        await cluster.start(timeout_ms=limit_ms, fail_fast=True)
    else:
        await _start(cluster, limit_ms, first_call)
    try:
        yield Connection(cluster, limit_ms)
    finally:
        await cluster.close()


async def _configured(servers: str, settings: Mapping[str, Any]) -> AdminConfig:
    """Return the settings of the client. Raises SettingsError for an invalid address or setting,
    and if no host of the addresses is known."""
    try:
        parse_servers(servers)
        addresses = [part.strip() for part in servers.split(",") if part.strip()]
        config = admin_config(addresses, settings)  # type: ignore[arg-type]  # typed by name
    except (ValueError, ConfigError) as error:
        raise SettingsError(*NOT_STARTED) from error
    loop = asyncio.get_running_loop()
    for host, port in config.bootstrap_servers:
        with suppress(OSError):
            await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return config
    raise SettingsError(*NOT_STARTED)


async def _start(cluster: Cluster, timeout_ms: int, first_call: str) -> None:
    starting = asyncio.ensure_future(cluster.start(timeout_ms=timeout_ms))
    await asyncio.wait({starting}, timeout=_SILENCE_S)
    if not starting.done():
        for failure in cluster.failures:
            text = await _explained(failure)
            print_log("WARN", f"{text}; trying again for {timeout_ms} ms", _CONNECTS)
    try:
        await starting
    except AuthenticationError as error:
        raise _authentication_error(error) from error
    except RetriableError as error:
        text = f"Timed out waiting for a node assignment. Call: {first_call}"
        raise JavaError(TIMEOUT, text) from error


async def _explained(failure: ConnectFailure) -> str:
    """Return the text of a failed connect. For a peer that closes the connection of a client
    without TLS, find out if the peer speaks TLS."""
    if failure.cause is not ConnectCause.CLOSED or failure.detail:
        return str(failure)
    from oncelog_client.cli.connecting import advice_for
    from oncelog_client.io.peer_probe import speaks_tls

    if not await speaks_tls(failure.address):
        return str(failure)
    found = ConnectFailure(failure.address, ConnectCause.TLS)
    return f"{found}{advice_for([found])}"


def _authentication_error(error: AuthenticationError) -> JavaError:
    """Return the exception of Kafka's tools, with the broker's own message."""
    for failure in error.failures:
        if failure.cause is ConnectCause.AUTHENTICATION_FAILED:
            return java_error(error.code, failure.detail)
    return JavaError(*SSL_AUTHENTICATION)


def read_pairs(path: str | None) -> list[Property]:
    """Return the lines of a properties file. Raises SettingsError for a missing or invalid file."""
    if path is None:
        return []
    try:
        return parse_properties(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(NO_FILE, path) from None
    except PropertiesError as error:
        raise SettingsError(CONFIG_ERROR, f"{path}: {error}") from None


def read_settings(path: str | None) -> dict[str, Any]:
    """Return the client settings of a properties file. Settings that this client does not have are
    ignored, as by Kafka's tools. Raises SettingsError for a missing file, a value of the wrong type
    and a setting of TLS or SASL that is not supported."""
    properties = read_pairs(path)
    known = setting_types()
    used = [
        pair
        for pair in properties
        if pair.name.replace(".", "_") in known or is_security(pair.name)
    ]
    try:
        settings = typed_settings(used)
    except click.UsageError as error:
        raise SettingsError(CONFIG_ERROR, error.message) from None
    settings.pop("bootstrap_servers", None)
    return settings
