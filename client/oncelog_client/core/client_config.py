"""Settings that every client has, and the settings of the admin client.

Each kind of client has its own module, so that a short command imports only the settings of its
client. `oncelog_client.config` exports all names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

from oncelog_client.connect_failures import Address
from oncelog_client.frozen import Frozen
from oncelog_protocol.secret import Secret

from .security_settings import SecuritySettings, is_security
from .settings import (
    INT32_MAX,
    INT64_MAX,
    check_identifiers,
    check_ranges,
    check_types,
    parse_bootstrap_servers,
    refuse_unknown,
)

IsolationLevel = Literal["read_uncommitted", "read_committed"]


class ClientSettings(SecuritySettings, total=False):
    """Settings of every client, besides `SecuritySettings` and `bootstrap_servers`:
    `"host:port,host:port"`.

    client_id (str): name of this client in the logs and metrics of brokers. Default: "oncelog".
    request_timeout_ms (int): how long a request waits for its response. Default: 30000.
    retry_backoff_ms (int): pause before the first retry; doubled with each further retry.
        Default: 100.
    retry_backoff_max_ms (int): longest pause before a retry. Default: 1000.
    reconnect_backoff_ms (int): pause after the first failed connect to a broker; doubled with each
        further failure. Default: 50.
    reconnect_backoff_max_ms (int): longest pause after a failed connect. Default: 1000.
    connections_max_idle_ms (int): how long a connection may be unused before it is closed; -1
        means no limit. Default: 540000.
    metadata_max_age_ms (int): how old metadata of topics and brokers may become. Default:
        300000.
    socket_connection_setup_timeout_ms (int): how long a connect may take. Default: 10000.
    """

    client_id: str
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    connections_max_idle_ms: int
    metadata_max_age_ms: int
    socket_connection_setup_timeout_ms: int


class AdminSettings(ClientSettings, total=False):
    """Settings of `Admin`, besides `bootstrap_servers` and `ClientSettings`.

    default_api_timeout_ms (int): how long a call may take, with its retries. Default: 60000.
    """

    default_api_timeout_ms: int


class ClientConfig(Frozen):
    """The effective settings that every client needs to reach a cluster. `bootstrap_servers` are
    (host, port) pairs."""

    bootstrap_servers: tuple[Address, ...]
    client_id: str = "oncelog"
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    connections_max_idle_ms: int = 540_000
    metadata_max_age_ms: int = 300_000
    socket_connection_setup_timeout_ms: int = 10_000
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    sasl_jaas_config: Secret | None = None
    sasl_username: str | None = None
    sasl_password: Secret | None = None
    sasl_oauthbearer_token: Callable[[], object] | None = None
    sasl_oauthbearer_token_endpoint_url: str | None = None
    sasl_oauthbearer_client_credentials_client_id: str | None = None
    sasl_oauthbearer_client_credentials_client_secret: Secret | None = None
    sasl_oauthbearer_scope: str | None = None
    sasl_oauthbearer_header_urlencode: bool = False
    ssl_truststore_location: str | None = None
    ssl_truststore_type: str = "JKS"
    ssl_truststore_password: Secret | None = None
    ssl_truststore_certificates: Secret | None = None
    ssl_keystore_location: str | None = None
    ssl_keystore_type: str = "JKS"
    ssl_keystore_password: Secret | None = None
    ssl_keystore_key: Secret | None = None
    ssl_keystore_certificate_chain: Secret | None = None
    ssl_key_password: Secret | None = None
    ssl_endpoint_identification_algorithm: str = "https"
    ssl_enabled_protocols: tuple[str, ...] | None = None
    ssl_cipher_suites: tuple[str, ...] | None = None

    @property
    def has_tls(self) -> bool:
        """Return True if the connections to brokers use TLS."""
        return self.security_protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """Return True if the client authenticates its connections by SASL."""
        return self.security_protocol.startswith("SASL_")


class AdminConfig(ClientConfig):
    """The effective settings of an admin client."""

    default_api_timeout_ms: int = 60_000


# The settings that requests carry.
_IDENTIFIERS: Final = frozenset(
    {"client_id", "client_rack", "group_id", "group_instance_id", "transactional_id"}
)

CLIENT_LIMITS: Final[dict[str, tuple[float, float]]] = {
    "request_timeout_ms": (1, INT32_MAX),
    "retry_backoff_ms": (0, INT64_MAX),
    "retry_backoff_max_ms": (0, INT64_MAX),
    "reconnect_backoff_ms": (0, INT64_MAX),
    "reconnect_backoff_max_ms": (0, INT64_MAX),
    "metadata_max_age_ms": (1, INT64_MAX),
    "socket_connection_setup_timeout_ms": (1, INT32_MAX),
}


def admin_config(
    bootstrap_servers: str | Iterable[str], settings: AdminSettings | None = None
) -> AdminConfig:
    """Return the effective settings of an admin client. Raises ConfigError."""
    values = checked_values(AdminConfig, bootstrap_servers, settings or {})
    check_ranges(values, CLIENT_LIMITS)
    return AdminConfig(**values)


def client_config(config: ClientConfig) -> ClientConfig:
    """Return the settings of `config` that every client needs to reach a cluster."""
    return ClientConfig(**{name: getattr(config, name) for name in ClientConfig.defaults})


def checked_values(
    config: type[ClientConfig], servers: str | Iterable[str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `settings` over the defaults of `config`, with the parsed addresses.

    Raises ConfigError for an unknown name, a value of the wrong type, an invalid address, and
    settings of TLS or SASL that contradict each other.
    """
    refuse_unknown(settings, config.defaults)
    values = {**config.defaults, **settings}
    # `acks` may be a number or text, so `producer_config` checks it.
    check_types(values, {n: kind for n, kind in config.types.items() if n != "acks"})
    if any(map(is_security, settings)):
        from .security_config import check_security

        check_security(values, settings)
    check_identifiers(values, _IDENTIFIERS & values.keys())
    values["bootstrap_servers"] = parse_bootstrap_servers(servers)
    return values
