"""Settings of a topic: names, ranges, defaults, and settings of features that oncelog lacks.

The source is Kafka's LogConfig and ServerTopicConfigSynonyms. A topic stores only the settings that
were set for it, as text. The others have the broker's value at the time of reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from oncelog_server.log.config import COMPACT, LONGEST_INTERVAL, LogConfig
from oncelog_server.settings.log import FOREVER, SMALLEST_SEGMENT, SMALLEST_STORED_SEGMENT
from oncelog_server.settings.model import HONOURED, Settings
from oncelog_server.settings.table import (
    InvalidValue,
    Kind,
    Setting,
    SettingValue,
    at_least,
    parse_value,
)

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def _retention_ms(settings: Settings) -> int:
    if settings.log_retention_ms is not None:
        time_ms = settings.log_retention_ms
    elif settings.log_retention_minutes is not None:
        time_ms = settings.log_retention_minutes * MINUTE_MS
    else:
        time_ms = settings.log_retention_hours * HOUR_MS
    return -1 if time_ms < 0 else time_ms


def _first(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


# Topic settings with a default from several broker settings, in Kafka's order of precedence.
_DERIVED: dict[str, tuple[tuple[str, ...], Callable[[Settings], SettingValue]]] = {
    "retention.ms": (
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        _retention_ms,
    ),
    "segment.ms": (
        ("log.roll.ms", "log.roll.hours"),
        lambda settings: _first(settings.log_roll_ms, settings.log_roll_hours * HOUR_MS),
    ),
    "segment.jitter.ms": (
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        lambda settings: _first(
            settings.log_roll_jitter_ms, settings.log_roll_jitter_hours * HOUR_MS
        ),
    ),
    "flush.ms": (
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        lambda settings: _first(
            settings.log_flush_interval_ms, settings.log_flush_scheduler_interval_ms
        ),
    ),
}

# The fields of a topic setting that differ from those of its broker setting. For example, the type
# is LONG instead of INT.
_OWN_RULES: dict[str, dict[str, Any]] = {
    "segment.bytes": {"check": at_least(SMALLEST_STORED_SEGMENT)},
    "retention.ms": {
        "kind": Kind.LONG,
        "check": at_least(-1),
        "default": 168 * HOUR_MS,
        "doc": "Age at which segments are deleted; -1: never.",
    },
    "segment.ms": {
        "kind": Kind.LONG,
        "check": at_least(1),
        "default": 168 * HOUR_MS,
        "doc": "Age of a segment at which a new one begins.",
    },
    "segment.jitter.ms": {
        "kind": Kind.LONG,
        "check": at_least(0),
        "default": 0,
        "doc": "Maximum of the random time that is subtracted from segment.ms.",
    },
    "flush.ms": {
        "kind": Kind.LONG,
        "check": at_least(0),
        "default": FOREVER,
        "doc": "Time after a write at which a partition is fsynced.",
    },
}

_NO_REMOTE = "remote (tiered) storage is not built"


def _unset(reason: str, *harmless: SettingValue) -> Callable[[Any], str | None]:
    return lambda value: None if value in harmless else f"refused: {reason}"


# Topic settings of missing features: only the value that leaves the feature unused is accepted.
_UNHONOURED = (
    Setting("remote.storage.enable", Kind.BOOLEAN, False, _NO_REMOTE, _unset(_NO_REMOTE, False)),
    Setting("remote.log.copy.disable", Kind.BOOLEAN, False, _NO_REMOTE, _unset(_NO_REMOTE, False)),
    Setting(
        "remote.log.delete.on.disable", Kind.BOOLEAN, False, _NO_REMOTE, _unset(_NO_REMOTE, False)
    ),
    Setting("local.retention.ms", Kind.LONG, -2, _NO_REMOTE, _unset(_NO_REMOTE, -2)),
    Setting("local.retention.bytes", Kind.LONG, -2, _NO_REMOTE, _unset(_NO_REMOTE, -2)),
)


def _throttled_replicas(name: str, doc: str) -> Setting:
    """Return the row of a list of throttled replicas. The check and its message are those of
    Kafka's ThrottledReplicaListValidator."""

    def check(value: tuple[str, ...]) -> None:
        if "".join(value) != "*" and not all(re.fullmatch(_REPLICA, entry) for entry in value):
            raise InvalidValue(
                f"Invalid value [{', '.join(value)}] for configuration {name}: {name} must be the "
                "literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )

    return Setting(name, Kind.LIST, (), doc, check)


# As in Kafka, an entry may be empty.
_REPLICA: Final = r"(?:[0-9]{1,10}:[0-9]{1,10})?"
# Topic settings without a broker setting.
_THROTTLES = (
    _throttled_replicas(
        "leader.replication.throttled.replicas",
        "The replicas that send at most leader.replication.throttled.rate of their broker to "
        "followers outside of the ISR: partition:broker, separated by commas, or `*` for all "
        "(KIP-73).",
    ),
    _throttled_replicas(
        "follower.replication.throttled.replicas",
        "The replicas that fetch at most follower.replication.throttled.rate of their broker while "
        "they are outside of the ISR; the format is the same.",
    ),
)


# Kafka's internal settings of topics: they are for tests, and shown only if they are set.
INTERNAL = {
    "internal.segment.bytes": Setting(
        "internal.segment.bytes",
        Kind.INT,
        None,
        "segment.bytes without its minimum, for tests.",
        at_least(SMALLEST_STORED_SEGMENT),
    )
}


def _topic_settings() -> dict[str, Setting]:
    table: dict[str, Setting] = {}
    for row in HONOURED.values():
        if row.topic is not None and row.topic not in table:
            rules = _OWN_RULES.get(row.topic, {})
            table[row.topic] = msgspec.structs.replace(row, name=row.topic, topic=None, **rules)
    table.update((row.name, row) for row in (*_UNHONOURED, *_THROTTLES))
    table.update(INTERNAL)
    return dict(sorted(table.items()))


# Maximum number of cached LogConfigs, one for each set of settings.
_CONFIGS_KEPT: Final = 64

TOPIC_SETTINGS: dict[str, Setting] = _topic_settings()
UNHONOURED: Final = frozenset(row.name for row in _UNHONOURED)

# The broker settings that a topic setting defaults to, in the order of precedence.
SYNONYMS: dict[str, tuple[str, ...]] = {
    **{row.topic: (row.name,) for row in HONOURED.values() if row.topic is not None},
    **{name: names for name, (names, _) in _DERIVED.items()},
}


def topic_default(settings: Settings, name: str) -> SettingValue:
    """Return the value of a topic setting if the topic does not set it. Raises KeyError for an
    unknown setting."""
    if name in _DERIVED:
        return _DERIVED[name][1](settings)
    if name in SYNONYMS:
        broker_row = HONOURED[SYNONYMS[name][0]]
        return cast(SettingValue, getattr(settings, broker_row.attribute))
    return TOPIC_SETTINGS[name].default


def parse_overrides(overrides: Mapping[str, str | None]) -> dict[str, SettingValue]:
    """Return the values of a topic's own settings. Raises InvalidValue, worded as in Kafka, and for
    an unknown name before any invalid value."""
    check_names(overrides)
    values: dict[str, SettingValue] = {}
    for name, text in overrides.items():
        if text is None:
            raise InvalidValue(f"Null value not supported for topic configs: {name}")
        values[name] = parse_value(TOPIC_SETTINGS[name], text)
    return values


def check_names(overrides: Iterable[str]) -> None:
    """Raise InvalidValue for the first name that is no setting of a topic."""
    for name in overrides:
        if name not in TOPIC_SETTINGS:
            raise InvalidValue(f"Unknown topic config name: {name}")


def check_segment_bytes(own: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Raise InvalidValue for a new `segment.bytes` below Kafka 4's minimum.

    `own` and `before` are the topic's own settings after and before the change. A value that is in
    `before` stays valid, because an older release may have accepted it.
    """
    text = own.get("segment.bytes")
    if text is None or text == before.get("segment.bytes"):
        return
    row = msgspec.structs.replace(TOPIC_SETTINGS["segment.bytes"], check=at_least(SMALLEST_SEGMENT))
    parse_value(row, text)


def topic_values(settings: Settings, overrides: Mapping[str, str]) -> dict[str, SettingValue]:
    """Return the value in force of every topic setting. Raises InvalidValue if one is invalid.

    As in Kafka (LogConfig.fromProps), values that contradict each other are no error here: the
    settings of the broker may have changed since `check_overrides`.
    """
    values = {name: topic_default(settings, name) for name in TOPIC_SETTINGS}
    values.update(parse_overrides(overrides))
    return values


def check_overrides(settings: Settings, overrides: Mapping[str, str]) -> None:
    """Raise InvalidValue if a topic's own setting is invalid, or contradicts another setting
    (Kafka's LogConfig.validateValues)."""
    values = topic_values(settings, overrides)
    lag_ms, longest_lag_ms = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if cast(int, lag_ms) > cast(int, longest_lag_ms):
        raise InvalidValue(
            "conflict topic config setting min.compaction.lag.ms "
            f"({lag_ms}) > max.compaction.lag.ms ({longest_lag_ms})"
        )


def topic_config(settings: Settings, overrides: Mapping[str, str]) -> LogConfig:
    """Return the LogConfig of a topic with these `overrides`. Raises InvalidValue."""
    values: dict[str, Any] = dict(topic_values(settings, overrides))
    values["cleanup.policy"] = frozenset(values["cleanup.policy"])
    # Records of the active segment are not compacted, so it must close by max.compaction.lag.ms.
    if COMPACT in values["cleanup.policy"]:
        values["segment.ms"] = min(values["segment.ms"], values["max.compaction.lag.ms"])
    if values["internal.segment.bytes"] is not None:
        values["segment.bytes"] = values["internal.segment.bytes"]
    interval = min(values["index.interval.bytes"], LONGEST_INTERVAL)
    values["index.interval.bytes"] = interval
    values["validate.records"] = settings.oncelog_validate_records
    return LogConfig(
        **{name: values[name.replace("_", ".")] for name in LogConfig.__struct_fields__}
    )


class LogConfigs:
    """The LogConfigs of topics, computed once for all topics with the same own settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[tuple[tuple[str, str], ...], LogConfig] = {}

    def of(self, overrides: Mapping[str, str]) -> LogConfig:
        """Return the result of `topic_config`. Raises InvalidValue."""
        key = tuple(sorted(overrides.items())) if overrides else ()
        config = self._known.get(key)
        if config is None:
            if len(self._known) >= _CONFIGS_KEPT:
                self._known.clear()
            config = self._known[key] = topic_config(self._settings, overrides)
        return config
