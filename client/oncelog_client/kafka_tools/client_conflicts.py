"""Settings that the Java producer and consumer refuse together, with the Java client's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from oncelog_client.cli.options import dotted, typed_settings
from oncelog_client.core.consumer_config import ConsumerConfig
from oncelog_client.core.producer_config import ACKS, ProducerConfig, check_conflicts
from oncelog_client.core.security_settings import is_security
from oncelog_client.errors import ConfigError
from oncelog_client.kafka_tools.connecting import CONFIG_ERROR
from oncelog_client.kafka_tools.failures import ILLEGAL_ARGUMENT, SettingsError

_CONSTRUCTING: Final = "org.apache.kafka.common.KafkaException"
_INVALID_GROUP: Final = "org.apache.kafka.common.errors.InvalidGroupIdException"
# Kafka's order of the protocols in its messages.
_PROTOCOLS: Final = ("CONSUMER", "CLASSIC")
# Group protocol -> the settings that it refuses, in the order of Kafka's message.
_UNSUPPORTED: Final = {
    "CLASSIC": ("group.remote.assignor", "share.acknowledgement.mode", "share.acquire.mode"),
    "CONSUMER": (
        *("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms"),
        *("share.acknowledgement.mode", "share.acquire.mode"),
    ),
}


def check_producer(settings: Mapping[str, str]) -> None:
    """Check settings of the producer, each with a valid value. Raises SettingsError for a
    conflict."""
    typed = _typed(settings)
    values = {**ProducerConfig.defaults, **typed}
    values["acks"] = ACKS[values["acks"]]
    try:
        check_conflicts(values, typed)
    except ConfigError as error:
        raise SettingsError(CONFIG_ERROR, dotted(error.message)) from None


def check_consumer(settings: Mapping[str, str]) -> None:
    """Check settings of the consumer, each with a valid value. Raises SettingsError for a
    conflict."""
    typed = _typed(settings)
    group_id = typed.get("group_id")
    if group_id is not None and not group_id.strip():
        reason = "The configured group.id should not be an empty string or whitespace."
        raise constructing("consumer", _INVALID_GROUP, reason)
    values = {**ConsumerConfig.defaults, **typed}
    if values["heartbeat_interval_ms"] >= values["session_timeout_ms"]:
        reason = "Heartbeat must be set lower than the session timeout"
        raise constructing("consumer", ILLEGAL_ARGUMENT, reason)


def _typed(settings: Mapping[str, str]) -> dict[str, Any]:
    return typed_settings((name, text) for name, text in settings.items() if not is_security(name))


def check_group_protocol(pairs: Iterable[tuple[str, str]]) -> None:
    """Check the group protocol of a consumer and the settings that depend on it. `pairs` are all
    given settings: our client has no setting `group.protocol`. Raises SettingsError."""
    given = {name: value.strip() for name, value in pairs}
    chosen = given.get("group.protocol", "classic")
    protocol = chosen.upper()
    if protocol not in _PROTOCOLS:
        text = (
            f"Invalid value {chosen} for configuration group.protocol: String must be one of (case "
            f"insensitive): {', '.join(_PROTOCOLS)}"
        )
        raise SettingsError(CONFIG_ERROR, text)
    refused = [name for name in _UNSUPPORTED[protocol] if given.get(name)]
    if refused:
        text = f"{', '.join(refused)} cannot be set when group.protocol={protocol}"
        raise SettingsError(CONFIG_ERROR, text)


def constructing(client: str, java_class: str, reason: str) -> SettingsError:
    """Return the error of a client that could not be constructed: producer or consumer."""
    return SettingsError(
        _CONSTRUCTING, f"Failed to construct kafka {client}\nCaused by: {java_class}: {reason}"
    )
