"""Settings of the consumer: Kafka's names in snake case, Kafka's defaults, and errors for the
combinations that Kafka refuses.

`oncelog_client.config` exports these names too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from oncelog_client.errors import ConfigError

from .client_config import (
    CLIENT_LIMITS,
    ClientConfig,
    ClientSettings,
    IsolationLevel,
    checked_values,
)
from .offset_reset import OffsetReset, refused_reset
from .settings import INT32_MAX, check_choices, check_ranges, texts_of

AssignorName = Literal["range", "roundrobin", "cooperative-sticky"]


class ConsumerSettings(ClientSettings, total=False):
    """Settings of `Consumer`, besides `bootstrap_servers` and `ClientSettings`.

    group_id (str | None): consumer group to join, and to commit offsets for. Default: None.
    group_instance_id (str | None): name of a static member, which keeps its partitions over a
        restart. Default: None.
    allow_auto_create_topics (bool): missing topics of a subscription may be created.
        Default: True.
    auto_commit_interval_ms (int): how often positions are committed automatically. Default:
        5000.
    auto_offset_reset (str): where a partition without a committed offset begins: earliest,
        latest, none (an error), or by_duration:PT1H (the first record of the last hour, else the
        end; any duration of ISO 8601 that is not negative). Default: "latest".
    check_crcs (bool): check the CRC of every batch. Default: True.
    client_rack (str): rack of this client, to read from replicas near it. Default: "".
    default_api_timeout_ms (int): how long a call other than `poll` may take. Default: 60000.
    enable_auto_commit (bool): commit positions automatically; off without a group. Default:
        True.
    exclude_internal_topics (bool): leave internal topics out of a subscribed pattern. Default:
        True.
    fetch_max_bytes (int): maximum bytes of one response, and of the records fetched ahead.
        Default: 52428800.
    fetch_max_decompressed_factor (int): maximum size of a decompressed batch, as a multiple of
        fetch_max_bytes, or of 8 MiB if that is larger (oncelog's own). Default: 4.
    fetch_max_wait_ms (int): how long a broker waits for fetch_min_bytes. Default: 500.
    fetch_min_bytes (int): bytes that a broker collects before it responds. Default: 1.
    heartbeat_interval_ms (int): time between two heartbeats of a member. Default: 3000.
    isolation_level (str): read_committed returns only records of committed transactions, and
        records without a transaction; read_uncommitted returns all records. Default:
        "read_uncommitted".
    max_partition_fetch_bytes (int): maximum bytes of one partition in one response. Default:
        1048576.
    max_poll_interval_ms (int): longest time between two polls before the member leaves its
        group. Default: 300000.
    max_poll_records (int): maximum number of records of one poll. Default: 500.
    partition_assignment_strategy (sequence of str): range, roundrobin, cooperative-sticky, best
        first. Default: ("range", "cooperative-sticky").
    session_timeout_ms (int): time without a heartbeat after which the group removes a member.
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


class ConsumerConfig(ClientConfig):
    """The effective settings of a consumer."""

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
        """The maximum size of one decompressed batch, in bytes. The consumer holds one such batch
        at a time, besides the fetched responses. A small `fetch_max_bytes` does not make this limit
        small, because brokers return the first batch whole, however large it is."""
        return max(self.fetch_max_bytes, _LARGE_BATCH_BYTES) * self.fetch_max_decompressed_factor

    @property
    def read_committed(self) -> bool:
        return self.isolation_level == "read_committed"


# Lower bound of `fetch_max_bytes` in the limit of a decompressed batch. With the default factor,
# the limit allows a batch of max.message.bytes (1 MiB) with a high compression ratio.
_LARGE_BATCH_BYTES: Final = 8 << 20

# Topic.isValid of Kafka, which checks a group_instance_id too.
_LONGEST_NAME: Final = 249
_LEGAL: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")

_CONSUMER_LIMITS: Final[dict[str, tuple[float, float]]] = {
    **CLIENT_LIMITS,
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


def consumer_config(
    bootstrap_servers: str | Iterable[str], settings: ConsumerSettings
) -> ConsumerConfig:
    """Return the effective settings of a consumer. Raises ConfigError for the values that Kafka's
    consumer refuses."""
    values = checked_values(ConsumerConfig, bootstrap_servers, settings)
    check_ranges(values, _CONSUMER_LIMITS)
    name = "partition_assignment_strategy"
    strategies = tuple(text.strip() for text in texts_of(name, values[name]))
    values["partition_assignment_strategy"] = strategies
    check_choices(values, {"isolation_level": ("read_uncommitted", "read_committed")})
    if refusal := refused_reset("auto_offset_reset", values["auto_offset_reset"]):
        raise ConfigError(refusal)
    for name in strategies:
        check_choices({"partition_assignment_strategy": name}, {
            "partition_assignment_strategy": ("range", "roundrobin", "cooperative-sticky"),
        })  # fmt: skip
    group_id = values["group_id"]
    if group_id is not None and not group_id.strip():
        raise ConfigError("The configured group_id should not be an empty string or whitespace.")
    _check_instance_id(values["group_instance_id"])
    if group_id is None:
        if values["group_instance_id"] is not None:
            raise ConfigError("group_instance_id needs a group_id")
        if settings.get("enable_auto_commit"):
            raise ConfigError(
                "enable_auto_commit cannot be set to true when default group id (null) is used."
            )
        values["enable_auto_commit"] = False
    elif not strategies:
        raise ConfigError("partition_assignment_strategy is empty")
    if values["heartbeat_interval_ms"] >= values["session_timeout_ms"]:
        raise ConfigError("Heartbeat must be set lower than the session timeout")
    return ConsumerConfig(**values)


def _check_instance_id(name: str | None) -> None:
    """Raise ConfigError, with Kafka's text, for a name that is not a legal topic name either
    (JoinGroupRequest.validateGroupInstanceId)."""
    reason = ""
    if name == "":
        reason = "the empty string is not allowed"
    elif name in {".", ".."}:
        reason = f"'{name}' is not allowed"
    elif name is not None and len(name) > _LONGEST_NAME:
        reason = f"the length of '{name}' is longer than the max allowed length {_LONGEST_NAME}"
    elif name is not None and not set(name) <= _LEGAL:
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    if reason:
        raise ConfigError(f"Group instance id is invalid: {reason}")
