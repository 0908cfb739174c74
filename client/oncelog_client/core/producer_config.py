"""Settings of the producer: Kafka's names in snake case, Kafka's defaults, and errors for the
combinations that Kafka refuses.

`oncelog_client.config` has these names too.
"""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterable, Mapping
from typing import Any, Final, Literal

from oncelog_client.errors import ConfigError, SettingsWarning
from oncelog_protocol.records.compression import Compression

from .backoff import Backoff
from .client_config import CLIENT_LIMITS, ClientConfig, ClientSettings, checked_values
from .partition_queue import BatchingConfig
from .settings import INT32_MAX, INT64_MAX, check_choices, check_ranges

Acks = Literal[-1, 0, 1, "all"]

# Brokers keep the last five batches of a producer (KIP-98). With a sixth batch in flight, a broker
# could not recognize a duplicate.
MAX_IN_FLIGHT_WITH_IDEMPOTENCE: Final = 5

# A value of `acks` -> its number.
ACKS: Final[dict[Any, int]] = {"all": -1, "-1": -1, -1: -1, "0": 0, 0: 0, "1": 1, 1: 1}


class ProducerSettings(ClientSettings, total=False):
    """Settings of `Producer`, besides `bootstrap_servers` and `ClientSettings`.

    acks (int | str): replicas that must have a record before it counts as written: "all" (or
        -1), 1 for the leader alone, 0 for no response at all. Default: -1.
    batch_size (int): maximum bytes of a batch of several records. Default: 16384.
    buffer_memory (int): maximum bytes of all records that wait or are in flight; `send`
        waits for room. Default: 33554432.
    compression_type (str): none, gzip, snappy, lz4 or zstd. Default: "none".
    compression_level (int | None): level of the compression: gzip 1 to 9, lz4 1 to 17, zstd
        -131072 to 22; None for the codec's own. Default: None.
    delivery_timeout_ms (int): how long a record may take from `send` to its outcome. Default:
        120000.
    enable_idempotence (bool): write each record once and in order, despite retries. Default:
        True.
    linger_ms (float): how long a batch waits for more records. Default: 5.
    max_block_ms (int): how long `send` and the calls of a transaction may wait. Default: 60000.
    max_in_flight_requests_per_connection (int): requests in flight to one broker; at most 5
        with idempotence. Default: 5.
    max_request_size (int): maximum bytes of a request, and of a record. Default: 1048576.
    retries (int): how often a batch is sent again, within delivery_timeout_ms.
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


class ProducerConfig(ClientConfig):
    """The effective settings of a producer. `acks` is a number here, with -1 for all."""

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


# Kafka's limits of compression.<codec>.level (KIP-390). The other codecs have no level.
_LEVELS: Final[dict[str, tuple[int, int]]] = {
    "gzip": (1, 9),
    "lz4": (1, 17),
    "zstd": (-131_072, 22),
}

_COMPRESSIONS: Final = {codec.kafka_name: codec for codec in Compression}

_PRODUCER_LIMITS: Final[dict[str, tuple[float, float]]] = {
    **CLIENT_LIMITS,
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


def producer_config(
    bootstrap_servers: str | Iterable[str], settings: ProducerSettings
) -> ProducerConfig:
    """Return the effective settings of a producer.

    Raises ConfigError for a value or a conflict that Kafka's producer refuses. Warns with
    SettingsWarning if another setting turns off idempotence and the caller has not set
    `enable_idempotence`.
    """
    values = checked_values(ProducerConfig, bootstrap_servers, settings)
    acks = values["acks"]
    if not isinstance(acks, int | str) or acks not in ACKS:
        raise ConfigError(f"acks={acks!r} is not one of all, -1, 0, 1")
    values["acks"] = ACKS[acks]
    if values["transactional_id"] == "":
        raise ConfigError("transactional_id is empty")
    check_ranges(values, _PRODUCER_LIMITS)
    check_choices(values, {"compression_type": tuple(_COMPRESSIONS)})
    values["compression_level"] = _level(values["compression_type"], values["compression_level"])
    obstacles = check_conflicts(values, settings)
    if obstacles and values["enable_idempotence"]:
        values["enable_idempotence"] = False
        warnings.warn(
            f"idempotence is switched off by {' and '.join(obstacles)}; "
            "set enable_idempotence=False if this is intended",
            SettingsWarning,
            stacklevel=3,
        )
    two_phase = values["transaction_two_phase_commit_enable"]
    if two_phase and values["transactional_id"] is None:
        raise ConfigError("transaction_two_phase_commit_enable needs a transactional_id")
    _check_delivery_timeout(values, "delivery_timeout_ms" in settings)
    return ProducerConfig(**values)


def check_conflicts(values: Mapping[str, Any], settings: Container[str]) -> list[str]:
    """Return the settings that turn off idempotence. `values` are checked values of all settings,
    with `acks` as a number. `settings` are the names that the caller has set.

    Raises ConfigError for the conflicts, and with the texts, of the Java client's
    `ProducerConfig.postProcessAndValidateIdempotenceConfigs` (KIP-679, KIP-939).
    """
    obstacles = []
    if values["enable_idempotence"]:
        obstacles = _obstacles(values, "enable_idempotence" in settings)
    if values["transactional_id"] is not None and (obstacles or not values["enable_idempotence"]):
        raise ConfigError("Cannot set a transactional_id without also enabling idempotence.")
    if values["transaction_two_phase_commit_enable"] and "transaction_timeout_ms" in settings:
        raise ConfigError(
            "Cannot set transaction_timeout_ms when transaction_two_phase_commit_enable is set to "
            "true. Transactions will not expire with two-phase commit enabled."
        )
    return obstacles


def _obstacles(values: Mapping[str, Any], explicit: bool) -> list[str]:
    obstacles = []
    if values["retries"] == 0:
        if explicit:
            raise ConfigError("Must set retries to non-zero when using the idempotent producer.")
        obstacles.append("retries=0")
    if values["acks"] != -1:
        if explicit:
            raise ConfigError(
                "Must set acks to all in order to use the idempotent producer. Otherwise we cannot "
                "guarantee idempotence."
            )
        obstacles.append(f"acks={values['acks']}")
    in_flight = values["max_in_flight_requests_per_connection"]
    if in_flight > MAX_IN_FLIGHT_WITH_IDEMPOTENCE:
        raise ConfigError(
            "To use the idempotent producer, max_in_flight_requests_per_connection must be set to "
            f"at most {MAX_IN_FLIGHT_WITH_IDEMPOTENCE}. Current value is {in_flight}."
        )
    return obstacles


def _level(codec: str, level: int | None) -> int | None:
    """Return the level for the codec, or None for the codec's own (in gzip also -1).

    Raises ConfigError for a level that the codec does not have. A codec without levels ignores the
    setting, as Kafka's producer ignores the levels of other codecs.
    """
    if level is None or codec not in _LEVELS or (codec, level) == ("gzip", -1):
        return None
    least, most = _LEVELS[codec]
    if not least <= level <= most:
        raise ConfigError(f"compression_level={level} is not between {least} and {most} ({codec})")
    return level


def _check_delivery_timeout(values: dict[str, Any], explicit: bool) -> None:
    least = values["linger_ms"] + values["request_timeout_ms"]
    if values["delivery_timeout_ms"] < least:
        if explicit:
            raise ConfigError(
                "delivery_timeout_ms should be equal to or larger than linger_ms + "
                "request_timeout_ms"
            )
        values["delivery_timeout_ms"] = int(least)


def batching_config(config: ProducerConfig) -> BatchingConfig:
    """Return the settings of a producer that the producer's accumulator needs."""
    return BatchingConfig(
        batch_size=config.batch_size,
        linger_ms=config.linger_ms,
        buffer_memory=config.buffer_memory,
        delivery_timeout_ms=config.delivery_timeout_ms,
        retries=config.retries,
        backoff=Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
        max_in_flight=config.max_in_flight_requests_per_connection,
        compression=config.compression,
        compression_level=config.compression_level,
        idempotent=config.enable_idempotence,
        transactional=config.transactional_id is not None,
    )
