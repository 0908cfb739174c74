"""Settings of the clients: Kafka's names in snake case, Kafka's defaults, Kafka's conflicts.

A `...Settings` says what the caller wrote, a `...Config` what holds; the difference matters for
idempotence, which is given up silently only where nobody asked for it (KIP-679).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal, TypedDict, cast

from oncelog_protocol.records.compression import Compression

from .connect_failures import Address
from .errors import ConfigError, SettingsWarning
from .settings import (
    INT32_MAX,
    INT64_MAX,
    SECURITY_NOT_BUILT,
    check_choices,
    check_ranges,
    check_types,
    parse_bootstrap_servers,
    refuse_unknown,
)

Acks = Literal[-1, 0, 1, "all"]
IsolationLevel = Literal["read_uncommitted", "read_committed"]
OffsetReset = Literal["earliest", "latest", "none"]
AssignorName = Literal["range", "roundrobin", "cooperative-sticky"]

# One more would not fit the window of five batches that brokers keep per producer (KIP-98).
MAX_IN_FLIGHT_WITH_IDEMPOTENCE: Final = 5

_ACKS: Final[dict[Any, int]] = {"all": -1, "-1": -1, -1: -1, "0": 0, 0: 0, "1": 1, 1: 1}


class ClientSettings(TypedDict, total=False):
    """What every client may be given, besides `bootstrap_servers`: `"host:port,host:port"`.

    client_id (str): name of this client in the logs and metrics of brokers. Default: "oncelog".
    request_timeout_ms (int): how long a request waits for its response. Default: 30000.
    retry_backoff_ms (int): pause before the first retry; doubled with each one after it.
        Default: 100.
    retry_backoff_max_ms (int): longest pause before a retry. Default: 1000.
    reconnect_backoff_ms (int): pause after the first failed connect to a broker; doubled then.
        Default: 50.
    reconnect_backoff_max_ms (int): longest pause after a failed connect. Default: 1000.
    connections_max_idle_ms (int): how long a connection may be unused before it is closed; -1
        for ever. Default: 540000.
    metadata_max_age_ms (int): how old metadata of topics and brokers may become. Default:
        300000.
    security_protocol (str): PLAINTEXT; TLS and SASL are not built yet. Default: "PLAINTEXT".
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
    security_protocol: str
    socket_connection_setup_timeout_ms: int


class AdminSettings(ClientSettings, total=False):
    """What `Admin` may be given besides `bootstrap_servers` and `ClientSettings`.

    default_api_timeout_ms (int): how long a call may take, with its retries. Default: 60000.
    """

    default_api_timeout_ms: int


class ProducerSettings(ClientSettings, total=False):
    """What `Producer` may be given besides `bootstrap_servers` and `ClientSettings`.

    acks (int | str): which replicas have a record when it counts as written: "all" (or -1), 1 for
        the leader alone, 0 for no response at all. Default: -1.
    batch_size (int): bytes that records of one partition are collected to. Default: 16384.
    buffer_memory (int): bytes of all records that wait or are on their way; `send` waits
        beyond. Default: 33554432.
    compression_type (str): none, gzip, snappy, lz4 or zstd. Default: "none".
    compression_level (int | None): level of the compression; None for the codec's own. Default:
        None.
    delivery_timeout_ms (int): how long a record may take from `send` to its outcome. Default:
        120000.
    enable_idempotence (bool): write each record once whatever is retried, in order. Default:
        True.
    linger_ms (float): how long a batch waits for more records. Default: 5.
    max_block_ms (int): how long `send` and the calls of a transaction may wait. Default: 60000.
    max_in_flight_requests_per_connection (int): requests on their way to one broker; at most 5
        with idempotence. Default: 5.
    max_request_size (int): bytes of the largest request, and of the largest record. Default:
        1048576.
    retries (int): how often a batch is sent again; delivery_timeout_ms ends it earlier.
        Default: 2147483647.
    transaction_timeout_ms (int): how long a transaction may be open before the coordinator
        aborts it. Default: 60000.
    transaction_two_phase_commit_enable (bool): an external coordinator decides; transactions
        have no timeout (KIP-939). Default: False.
    transactional_id (str | None): name that fences older producers of the same name, and allows
        transactions. Default: None.
    """

    acks: Acks
    batch_size: int
    buffer_memory: int
    compression_type: str
    compression_level: int | None
    delivery_timeout_ms: int
    enable_idempotence: bool
    linger_ms: float
    max_block_ms: int
    max_in_flight_requests_per_connection: int
    max_request_size: int
    retries: int
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool
    transactional_id: str | None


class ConsumerSettings(ClientSettings, total=False):
    """What `Consumer` may be given besides `bootstrap_servers` and `ClientSettings`.

    group_id (str | None): consumer group to join, and to commit offsets for. Default: None.
    group_instance_id (str | None): name of a static member, which keeps its partitions over a
        restart. Default: None.
    allow_auto_create_topics (bool): whether a topic that is subscribed to may be created.
        Default: True.
    auto_commit_interval_ms (int): how often positions are committed by themselves. Default:
        5000.
    auto_offset_reset (str): where a partition without a committed offset begins: earliest,
        latest, none (an error). Default: "latest".
    check_crcs (bool): check the CRC of every batch. Default: True.
    client_rack (str): rack of this client, to read from replicas near it. Default: "".
    default_api_timeout_ms (int): how long a call other than `poll` may take. Default: 60000.
    enable_auto_commit (bool): commit positions by itself; off without a group. Default: True.
    exclude_internal_topics (bool): leave internal topics out of a subscribed pattern. Default:
        True.
    fetch_max_bytes (int): bytes of one response, and of what is fetched ahead. Default:
        52428800.
    fetch_max_decompressed_factor (int): one batch may decompress to so many times
        fetch_max_bytes (oncelog's own). Default: 4.
    fetch_max_wait_ms (int): how long a broker waits for fetch_min_bytes. Default: 500.
    fetch_min_bytes (int): bytes that a broker collects before it responds. Default: 1.
    heartbeat_interval_ms (int): how often a member says that it is alive. Default: 3000.
    isolation_level (str): read_committed, or read_uncommitted: also records of open and aborted
        transactions. Default: "read_uncommitted".
    max_partition_fetch_bytes (int): bytes of one partition in one response. Default: 1048576.
    max_poll_interval_ms (int): longest time between two polls before the member leaves its
        group. Default: 300000.
    max_poll_records (int): records of one poll. Default: 500.
    partition_assignment_strategy (sequence of str): range, roundrobin, cooperative-sticky, best
        first. Default: ("range", "cooperative-sticky").
    session_timeout_ms (int): time without a heartbeat after which a member is taken for dead.
        Default: 45000.
    """

    group_id: str | None
    group_instance_id: str | None
    allow_auto_create_topics: bool
    auto_commit_interval_ms: int
    auto_offset_reset: OffsetReset
    check_crcs: bool
    client_rack: str
    default_api_timeout_ms: int
    enable_auto_commit: bool
    exclude_internal_topics: bool
    fetch_max_bytes: int
    fetch_max_decompressed_factor: int
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    heartbeat_interval_ms: int
    isolation_level: IsolationLevel
    max_partition_fetch_bytes: int
    max_poll_interval_ms: int
    max_poll_records: int
    partition_assignment_strategy: Sequence[AssignorName]
    session_timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """What every client needs to reach a cluster; `bootstrap_servers` as (host, port) pairs."""

    bootstrap_servers: tuple[Address, ...]
    client_id: str = "oncelog"
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    connections_max_idle_ms: int = 540_000
    metadata_max_age_ms: int = 300_000
    security_protocol: str = "PLAINTEXT"
    socket_connection_setup_timeout_ms: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig(ClientConfig):
    """What holds for an admin client."""

    default_api_timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """What holds for a producer. `acks` is a number here: -1 stands for all."""

    acks: int = -1
    batch_size: int = 16_384
    buffer_memory: int = 33_554_432
    compression_type: str = "none"
    compression_level: int | None = None
    delivery_timeout_ms: int = 120_000
    enable_idempotence: bool = True
    linger_ms: float = 5
    max_block_ms: int = 60_000
    max_in_flight_requests_per_connection: int = 5
    max_request_size: int = 1_048_576
    retries: int = INT32_MAX
    transaction_timeout_ms: int = 60_000
    transaction_two_phase_commit_enable: bool = False
    transactional_id: str | None = None

    @property
    def compression(self) -> Compression:
        return _COMPRESSIONS[self.compression_type]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """What holds for a consumer."""

    group_id: str | None = None
    group_instance_id: str | None = None
    allow_auto_create_topics: bool = True
    auto_commit_interval_ms: int = 5_000
    auto_offset_reset: OffsetReset = "latest"
    check_crcs: bool = True
    client_rack: str = ""
    default_api_timeout_ms: int = 60_000
    enable_auto_commit: bool = True
    exclude_internal_topics: bool = True
    fetch_max_bytes: int = 52_428_800
    fetch_max_decompressed_factor: int = 4
    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1
    heartbeat_interval_ms: int = 3_000
    isolation_level: IsolationLevel = "read_uncommitted"
    max_partition_fetch_bytes: int = 1_048_576
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    partition_assignment_strategy: tuple[AssignorName, ...] = ("range", "cooperative-sticky")
    session_timeout_ms: int = 45_000

    @property
    def max_batch_bytes(self) -> int:
        """What the records of one batch may take when decompressed: a reader holds one at a time
        besides what it fetched. A batch is read whole, however small `fetch_max_bytes` is."""
        return max(self.fetch_max_bytes, _LARGE_BATCH_BYTES) * self.fetch_max_decompressed_factor

    @property
    def read_committed(self) -> bool:
        return self.isolation_level == "read_committed"


# A batch of max.message.bytes (1 MiB) that is compressed well.
_LARGE_BATCH_BYTES: Final = 8 << 20

_COMPRESSIONS: Final = {codec.kafka_name: codec for codec in Compression}

_CLIENT_LIMITS: Final[dict[str, tuple[float, float]]] = {
    "request_timeout_ms": (1, INT32_MAX),
    "retry_backoff_ms": (0, INT64_MAX),
    "retry_backoff_max_ms": (0, INT64_MAX),
    "reconnect_backoff_ms": (0, INT64_MAX),
    "reconnect_backoff_max_ms": (0, INT64_MAX),
    "metadata_max_age_ms": (1, INT64_MAX),
    "socket_connection_setup_timeout_ms": (1, INT32_MAX),
}
_PRODUCER_LIMITS: Final[dict[str, tuple[float, float]]] = {
    **_CLIENT_LIMITS,
    "batch_size": (0, INT32_MAX),
    "buffer_memory": (0, INT64_MAX),
    "delivery_timeout_ms": (0, INT32_MAX),
    "linger_ms": (0, INT64_MAX),
    "max_block_ms": (0, INT64_MAX),
    "max_in_flight_requests_per_connection": (1, INT32_MAX),
    "max_request_size": (0, INT32_MAX),
    "retries": (0, INT32_MAX),
    "transaction_timeout_ms": (1, INT32_MAX),
}
_CONSUMER_LIMITS: Final[dict[str, tuple[float, float]]] = {
    **_CLIENT_LIMITS,
    "auto_commit_interval_ms": (0, INT32_MAX),
    "default_api_timeout_ms": (0, INT32_MAX),
    "fetch_max_bytes": (0, INT32_MAX),
    "fetch_max_decompressed_factor": (1, 1_000),
    "fetch_max_wait_ms": (0, INT32_MAX),
    "fetch_min_bytes": (0, INT32_MAX),
    "max_partition_fetch_bytes": (0, INT32_MAX),
    "max_poll_interval_ms": (1, INT32_MAX),
    "max_poll_records": (1, INT32_MAX),
    "session_timeout_ms": (1, INT32_MAX),
}


def admin_config(
    bootstrap_servers: str | Sequence[str], settings: AdminSettings | None = None
) -> AdminConfig:
    """The settings that hold for an admin client. Raises ConfigError."""
    values = _values(AdminConfig, bootstrap_servers, settings or {})
    check_ranges(values, _CLIENT_LIMITS)
    return AdminConfig(**values)


def producer_config(
    bootstrap_servers: str | Sequence[str], settings: ProducerSettings
) -> ProducerConfig:
    """The settings that hold for a producer.

    Raises ConfigError for a value or a conflict Kafka's producer refuses; warns with
    SettingsWarning where idempotence, not asked for explicitly, is given up for another setting.
    """
    values = _values(ProducerConfig, bootstrap_servers, settings)
    acks = values["acks"]
    if not isinstance(acks, int | str) or acks not in _ACKS:
        raise ConfigError(f"acks={acks!r} is none of all, -1, 0, 1")
    values["acks"] = _ACKS[acks]
    check_ranges(values, _PRODUCER_LIMITS)
    check_choices(values, {"compression_type": tuple(_COMPRESSIONS)})
    values["enable_idempotence"] = _resolve_idempotence(values, "enable_idempotence" in settings)
    _check_delivery_timeout(values, "delivery_timeout_ms" in settings)
    if values["transaction_two_phase_commit_enable"]:
        _check_two_phase(values, "transaction_timeout_ms" in settings)
    return ProducerConfig(**values)


def consumer_config(
    bootstrap_servers: str | Sequence[str], settings: ConsumerSettings
) -> ConsumerConfig:
    """The settings that hold for a consumer. Raises ConfigError as Kafka's consumer does."""
    values = _values(ConsumerConfig, bootstrap_servers, settings)
    check_ranges(values, _CONSUMER_LIMITS)
    strategies = tuple(values["partition_assignment_strategy"])
    values["partition_assignment_strategy"] = strategies
    check_choices(
        values,
        {
            "isolation_level": ("read_uncommitted", "read_committed"),
            "auto_offset_reset": ("earliest", "latest", "none"),
        },
    )
    for name in strategies:
        check_choices({"partition_assignment_strategy": name}, {
            "partition_assignment_strategy": ("range", "roundrobin", "cooperative-sticky"),
        })  # fmt: skip
    if values["group_id"] == "":
        raise ConfigError("group_id is empty")
    if values["group_id"] is None:
        if values["group_instance_id"] is not None:
            raise ConfigError("group_instance_id needs a group_id")
        if settings.get("enable_auto_commit"):
            raise ConfigError("enable_auto_commit needs a group_id")
        values["enable_auto_commit"] = False
    elif not strategies:
        raise ConfigError("partition_assignment_strategy is empty")
    if values["heartbeat_interval_ms"] >= values["session_timeout_ms"]:
        raise ConfigError("heartbeat_interval_ms must be below session_timeout_ms")
    return ConsumerConfig(**values)


def client_config(config: ClientConfig) -> ClientConfig:
    """Only what is needed to reach the cluster."""
    names = {field.name for field in fields(ClientConfig)}
    return ClientConfig(**{name: value for name, value in asdict(config).items() if name in names})


def _values(
    config: type[ClientConfig], servers: str | Sequence[str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    defaults = {field.name: field.default for field in fields(config)}
    refuse_unknown(settings, defaults)
    values = {**defaults, **settings}
    # acks may be a text as well, which its own check knows.
    check_types(values, {f.name: f.type for f in fields(config) if f.name != "acks"})
    if values["security_protocol"].upper() != "PLAINTEXT":
        raise ConfigError(f"security_protocol={values['security_protocol']}: {SECURITY_NOT_BUILT}")
    values["bootstrap_servers"] = parse_bootstrap_servers(servers)
    return values


def _resolve_idempotence(values: Mapping[str, Any], explicit: bool) -> bool:
    """KIP-679 and `ProducerConfig.postProcessAndValidateIdempotenceConfigs` of the Java client."""
    wanted = cast(bool, values["enable_idempotence"])
    obstacles = [
        text
        for holds, text in (
            (values["acks"] != -1, f"acks={values['acks']}"),
            (values["retries"] == 0, "retries=0"),
            (
                values["max_in_flight_requests_per_connection"] > MAX_IN_FLIGHT_WITH_IDEMPOTENCE,
                "more than 5 max_in_flight_requests_per_connection",
            ),
        )
        if holds
    ]
    if wanted and obstacles:
        if explicit:
            raise ConfigError(f"enable_idempotence excludes {' and '.join(obstacles)}")
        wanted = False
        if values["transactional_id"] is None:
            warnings.warn(
                f"idempotence is switched off by {' and '.join(obstacles)}; "
                "set enable_idempotence=False to say so",
                SettingsWarning,
                stacklevel=4,
            )
    if values["transactional_id"] is not None and not wanted:
        reason = f" ({' and '.join(obstacles)})" if obstacles else ""
        raise ConfigError(f"a transactional_id needs enable_idempotence{reason}")
    return wanted


def _check_two_phase(values: Mapping[str, Any], timeout_is_set: bool) -> None:
    """KIP-939: who decides is outside, and may take any time."""
    if values["transactional_id"] is None:
        raise ConfigError("transaction_two_phase_commit_enable needs a transactional_id")
    if timeout_is_set:
        raise ConfigError(
            "transaction_timeout_ms has no meaning with transaction_two_phase_commit_enable: "
            "transactions do not expire"
        )


def _check_delivery_timeout(values: dict[str, Any], explicit: bool) -> None:
    least = values["linger_ms"] + values["request_timeout_ms"]
    if values["delivery_timeout_ms"] < least:
        if explicit:
            raise ConfigError("delivery_timeout_ms must be at least linger_ms + request_timeout_ms")
        values["delivery_timeout_ms"] = int(least)
