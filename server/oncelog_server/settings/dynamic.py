"""The settings that can change while a broker runs (KIP-226): which these are, how a change is
checked, and the settings in force.

A broker's own dynamic settings override those of all brokers, and these override the settings of
its start. Any other setting is read when the broker starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from oncelog_server.settings.contradictions import OVERRIDES, contradictions
from oncelog_server.settings.listener_settings import LIMITS, listener_setting
from oncelog_server.settings.listeners import client_listeners
from oncelog_server.settings.model import HONOURED, Settings
from oncelog_server.settings.table import (
    InvalidValue,
    Kind,
    Setting,
    SettingValue,
    at_least,
    parse_value,
)
from oncelog_server.settings.thread_counts import NETWORK, THREAD_COUNTS

NO_THROTTLE: Final = 2**63 - 1
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"

# Settings that exist only as dynamic ones (Kafka's QuotaConfig.brokerQuotaConfigs).
THROTTLES: Final[dict[str, Setting]] = {
    name: Setting(name, Kind.LONG, NO_THROTTLE, doc, at_least(0))
    for name, doc in (
        (
            LEADER_RATE,
            "Bytes per second that this broker sends to followers outside of the ISR, of the "
            "partitions in leader.replication.throttled.replicas.",
        ),
        (
            FOLLOWER_RATE,
            "Bytes per second that this broker fetches while it is outside of the ISR, of the "
            "partitions in follower.replication.throttled.replicas.",
        ),
        (
            "replica.alter.log.dirs.io.max.bytes.per.second",
            "No effect: there is one data directory, so no replica moves between directories.",
        ),
    )
}

# Kafka derives the default of a topic setting from these too, but reads them only at the start.
_READ_AT_START: Final = frozenset(
    {
        "log.retention.minutes",
        "log.retention.hours",
        "log.roll.hours",
        "log.roll.jitter.hours",
        "log.flush.scheduler.interval.ms",
    }
)

# The dynamic settings. Each can change for one broker or for all brokers.
DYNAMIC: Final[dict[str, Setting]] = {
    **{
        name: row
        for name, row in HONOURED.items()
        if row.topic is not None and name not in _READ_AT_START
    },
    **{
        name: HONOURED[name]
        for name in (
            "log.cleaner.backoff.ms",
            "log.cleaner.dedupe.buffer.size",
            "log.cleaner.io.buffer.load.factor",
            "log.cleaner.io.buffer.size",
            "log.cleaner.io.max.bytes.per.second",
            "max.connection.creation.rate",
            "max.connections",
            "max.connections.per.ip",
            "max.connections.per.ip.overrides",
            "producer.id.expiration.ms",
            "transaction.partition.verification.enable",
        )
    },
    **THROTTLES,
    **THREAD_COUNTS,
}

# The dynamic settings of one listener, `listener.name.<listener>.<setting>`. Kafka has those of
# TLS and SASL too, for single brokers (docs/semantics.md).
OF_LISTENERS: Final = (*LIMITS, NETWORK)


def dynamic_row(name: str) -> Setting | None:
    """Return a dynamic setting: one of DYNAMIC, or one of OF_LISTENERS for one listener. Return
    None for any other."""
    row = DYNAMIC.get(name)
    if row is not None or (own := listener_setting(name)) is None:
        return row
    if own.mechanism is not None or own.name not in OF_LISTENERS:
        return None
    return msgspec.structs.replace(DYNAMIC[own.name], name=name)


def rate_of(settings: Settings, name: str) -> int:
    """Return the throttled rate in force, in bytes per second, NO_THROTTLE without one."""
    text = settings.dynamic.get(name, settings.dynamic_defaults.get(name))
    return NO_THROTTLE if text is None else int(text)


def check_change(
    settings: Settings,
    own: Mapping[str, str],
    layers: Sequence[tuple[Mapping[str, str], Mapping[str, str]]],
) -> None:
    """Check the dynamic settings `own` of a broker, or of all brokers, as they will be.

    `layers` are (settings of the broker, settings of all brokers) for each broker that `own`
    concerns. `settings` are those of this broker. Raises InvalidValue, worded as in Kafka, for a
    setting that is not dynamic, for an invalid value, and for a contradiction between settings. As
    in Kafka, a contradiction to a topic's own settings is none (DynamicLogConfig).
    """
    fixed = [name for name in own if dynamic_row(name) is None]
    if fixed:
        raise InvalidValue(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    for name, text in own.items():
        _parse(name, text)
    static = settings.at_start or settings
    for broker, defaults in layers:
        _check(static, _with(static, _valid(broker), _valid(defaults)))


def in_force(static: Settings, own: Mapping[str, str], defaults: Mapping[str, str]) -> Settings:
    """Return the settings in force: those of the start, with the dynamic settings of all brokers,
    and over these the broker's own.

    A dynamic setting has no effect if this version cannot read its value, or if it contradicts the
    settings of this start: another broker has accepted it, or the settings of the start have
    changed.
    """
    own, defaults = _valid(own), _valid(defaults)
    whole = _with(static, own, defaults)
    if _fits(static, whole):
        return whole
    kept: dict[bool, dict[str, str]] = {True: {}, False: {}}
    left = [(False, *row) for row in defaults.items()] + [(True, *row) for row in own.items()]
    found = static
    while True:
        # A setting may fit only after another one is in force, so each setting that did not fit is
        # tried again.
        tried, left = left, []
        for is_own, name, text in tried:
            layers = {**kept, is_own: {**kept[is_own], name: text}}
            changed = _with(static, layers[True], layers[False])
            if _fits(static, changed):
                kept, found = layers, changed
            else:
                left.append((is_own, name, text))
        if len(left) == len(tried):
            return found if found is not static else _with(static, {}, {})


def _with(static: Settings, own: Mapping[str, str], defaults: Mapping[str, str]) -> Settings:
    """Return the settings with these dynamic ones, which have valid values."""
    values: dict[str, Any] = {
        row.attribute: parse_value(row, text)
        for name, text in {**defaults, **own}.items()
        if (row := HONOURED.get(name)) is not None
    }
    of_listeners = dict(static.of_listeners)
    known = {listener.name for listener in client_listeners(static)}
    for name, text in {**defaults, **own}.items():
        # As in Kafka, a limit of a listener that the broker does not have has no effect.
        if (limit := listener_setting(name)) is not None and limit.listener in known:
            of_listeners[limit] = _parse(name, text)
    return replace(
        static,
        at_start=static,
        dynamic=own,
        dynamic_defaults=defaults,
        of_listeners=of_listeners,
        **values,
    )


def _check(static: Settings, changed: Settings) -> None:
    """Raise InvalidValue for a contradiction, or a limit of 0 connections, that the settings of the
    start do not have."""
    known = contradictions(static)
    for name, reason in contradictions(changed):
        if (name, reason) not in known:
            raise InvalidValue(_message(name, reason))
    for name in _limits_of_zero(changed):
        if name not in _limits_of_zero(static):
            reason = f"org.apache.kafka.common.config.ConfigException: Invalid {name} 0"
            raise InvalidValue(
                f"Invalid value {reason} for configuration Invalid dynamic configuration"
            )


def _message(name: str, reason: str) -> str:
    """Return Kafka's message for a contradiction. The end is Kafka's if the rule is."""
    if name == OVERRIDES:
        return f"Error parsing configuration property '{name}': {reason}"
    return f"requirement failed: {name} {reason}"


def _fits(static: Settings, changed: Settings) -> bool:
    try:
        _check(static, changed)
    except InvalidValue:
        return False
    return True


def _valid(texts: Mapping[str, str]) -> dict[str, str]:
    valid = {}
    for name, text in texts.items():
        try:
            if dynamic_row(name) is not None:
                _parse(name, text)
                valid[name] = text
        except InvalidValue:
            # Another version has accepted the value. DescribeConfigs shows what is in force.
            continue
    return valid


def _parse(name: str, text: str) -> SettingValue:
    row = dynamic_row(name)
    assert row is not None
    of_listener = listener_setting(name)
    if of_listener is not None:
        # As in Kafka, a refusal names the setting without the prefix of the listener.
        row = msgspec.structs.replace(row, name=of_listener.name)
    return parse_value(row, text)


def _limits_of_zero(settings: Settings) -> Iterator[str]:
    """Yield the limits that close each connection of a listener. A client could not change them any
    more (Kafka's ListenerConnectionQuota.validateReconfiguration)."""
    for listener in client_listeners(settings):
        own = settings.of_listener(listener.name)
        for name in LIMITS:
            if getattr(own, HONOURED[name].attribute) == 0:
                yield name
