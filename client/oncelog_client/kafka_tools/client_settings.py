"""The settings of the Java producer and consumer: which a console tool takes, and the words of the
Java client for an invalid value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from oncelog_client.core.consumer_config import ConsumerSettings
from oncelog_client.core.offset_reset import refused_reset
from oncelog_client.core.producer_config import ProducerSettings
from oncelog_client.core.security_settings import is_security
from oncelog_client.kafka_tools.connecting import CONFIG_ERROR
from oncelog_client.kafka_tools.failures import SettingsError

# bootstrap.servers is an option of the tools.
PRODUCER: Final = frozenset(ProducerSettings.__annotations__) - {"bootstrap_servers"}
CONSUMER: Final = frozenset(ConsumerSettings.__annotations__) - {"bootstrap_servers"}

_CHOICES: Final = {
    "acks": ("all", "-1", "0", "1"),
    "compression.type": ("none", "gzip", "snappy", "lz4", "zstd"),
    "isolation.level": ("read_committed", "read_uncommitted"),
}
_NOT_EMPTY: Final = frozenset({"group.instance.id", "transactional.id"})
_BOOLEANS: Final = frozenset(
    {
        *("allow.auto.create.topics", "check.crcs", "enable.auto.commit", "enable.idempotence"),
        *("exclude.internal.topics", "transaction.two.phase.commit.enable"),
    }
)
# Setting -> its least value, or None if the client checks no range.
_INTEGERS: Final[dict[str, int | None]] = {
    **dict.fromkeys(("auto.commit.interval.ms", "batch.size", "default.api.timeout.ms"), 0),
    **dict.fromkeys(("delivery.timeout.ms", "fetch.max.bytes", "fetch.max.wait.ms"), 0),
    **dict.fromkeys(("fetch.min.bytes", "max.partition.fetch.bytes", "max.request.size"), 0),
    **dict.fromkeys(("request.timeout.ms", "retries"), 0),
    "max.in.flight.requests.per.connection": 1,
    "max.poll.interval.ms": 1,
    "max.poll.records": 1,
    "heartbeat.interval.ms": None,
    "session.timeout.ms": None,
    "transaction.timeout.ms": None,
}
_LONGS: Final[dict[str, int | None]] = {
    **dict.fromkeys(("buffer.memory", "linger.ms", "max.block.ms", "metadata.max.age.ms"), 0),
    **dict.fromkeys(("reconnect.backoff.max.ms", "reconnect.backoff.ms"), 0),
    **dict.fromkeys(("retry.backoff.max.ms", "retry.backoff.ms"), 0),
    "connections.max.idle.ms": None,
    "socket.connection.setup.timeout.ms": None,
}


def taken(pairs: Iterable[tuple[str, str]], known: frozenset[str]) -> dict[str, str]:
    """Return the settings that the client has, the last value of each. The Java client ignores
    others. Raises SettingsError for an invalid value."""
    settings = {
        name: value for name, value in pairs if name.replace(".", "_") in known or is_security(name)
    }
    _check(settings)
    return settings


def _check(settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        reason = _reason(name, value.strip())
        if reason:
            text = f"Invalid value {value.strip()} for configuration {name}: {reason}"
            raise SettingsError(CONFIG_ERROR, text)


def _reason(name: str, value: str) -> str:
    """Return Kafka's words for the reason why a value is invalid, or an empty string."""
    choices = _CHOICES.get(name)
    if choices is not None and value not in choices:
        return f"String must be one of: {', '.join(choices)}"
    if name in _NOT_EMPTY and not value:
        return "String must be non-empty"
    if name == "auto.offset.reset":
        return refused_reset(name, value)
    if name in _BOOLEANS and value.lower() not in {"true", "false"}:
        return "Expected value to be either true or false"
    for kind, bits, numbers in (("INT", 31, _INTEGERS), ("LONG", 63, _LONGS)):
        if name in numbers:
            return _reason_of_number(value, kind, 1 << bits, numbers[name])
    return ""


def _reason_of_number(value: str, kind: str, limit: int, least: int | None) -> str:
    try:
        number = int(value) if "_" not in value else limit
    except ValueError:
        number = limit
    if not -limit <= number < limit:
        return f"Not a number of type {kind}"
    return f"Value must be at least {least}" if least is not None and number < least else ""
