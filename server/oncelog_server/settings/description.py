"""Settings as DescribeConfigs and CreateTopics show them: values, sources and synonyms.

Sources and synonyms are those of Kafka's ConfigHelper (KIP-226). The synonym in force comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import IntEnum

import msgspec

from oncelog_server.settings.accepted import ACCEPTED
from oncelog_server.settings.listener_settings import PREFIX as LISTENER_PREFIX
from oncelog_server.settings.model import HONOURED, Settings
from oncelog_server.settings.refused import REFUSED
from oncelog_server.settings.table import (
    InvalidValue,
    Kind,
    Setting,
    SettingValue,
    Unhonoured,
    format_value,
    parse_value,
)
from oncelog_server.settings.topics import INTERNAL, SYNONYMS, TOPIC_SETTINGS, topic_values


class ConfigSource(IntEnum):
    """Kafka's DescribeConfigsResponse.ConfigSource."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Synonym(msgspec.Struct, frozen=True):
    """A setting of a topic or broker that gives the value, or that would give it if no setting
    before it were set."""

    name: str
    value: str | None
    source: ConfigSource


class SettingDescription(msgspec.Struct, frozen=True):
    name: str
    value: str | None
    kind: Kind
    source: ConfigSource
    read_only: bool
    documentation: str
    synonyms: tuple[Synonym, ...]


def describe_topic(settings: Settings, own: Mapping[str, str]) -> Iterator[SettingDescription]:
    """Yield every setting of a topic, in the order of names. `own` are the settings that the topic
    itself has. Internal settings are left out if the topic does not have them."""
    values = topic_values(settings, own)
    for name, row in TOPIC_SETTINGS.items():
        if name in INTERNAL and name not in own:
            continue
        text = format_value(row.kind, values[name])
        synonyms = [Synonym(name, text, ConfigSource.TOPIC)] if name in own else []
        synonyms += _synonyms_of_topic(settings, name)
        yield SettingDescription(
            name,
            text or "",
            row.kind,
            synonyms[0].source if synonyms else ConfigSource.DEFAULT,
            False,
            row.doc,
            tuple(synonyms),
        )


def describe_broker(settings: Settings) -> Iterator[SettingDescription]:
    """Yield every setting of the broker: those that are honored, accepted without effect, and
    refused with another value than their default. Yield the settings that exist only as dynamic
    ones, if they are set.

    A setting is read-only if it cannot change while the broker runs.
    """
    from oncelog_server.settings.dynamic import DYNAMIC, THROTTLES, dynamic_row
    from oncelog_server.settings.thread_counts import THREAD_COUNTS

    for name, row in HONOURED.items():
        value: SettingValue = getattr(settings, row.attribute)
        synonyms = _broker_synonyms(settings, *_synonym_names(name)) if value is not None else []
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        text = format_value(row.kind, value)
        read_only = name not in DYNAMIC
        yield SettingDescription(name, text, row.kind, source, read_only, row.doc, tuple(synonyms))
    for row in THROTTLES.values():
        synonyms = _dynamic_synonyms(settings, row)
        if synonyms:
            yield _dynamic(row, synonyms)
    for name in dict.fromkeys((*settings.dynamic, *settings.dynamic_defaults)):
        limit = dynamic_row(name) if name.startswith(LISTENER_PREFIX) else None
        if limit is not None:
            # Kafka calls these read-only too, although they can change.
            found = _dynamic(limit, _dynamic_synonyms(settings, limit))
            yield msgspec.structs.replace(found, read_only=True)
    for name, other in (*ACCEPTED.items(), *REFUSED.items()):
        yield _unhonoured(settings, other, THREAD_COUNTS.get(name))


def _unhonoured(
    settings: Settings, other: Unhonoured, dynamic: Setting | None
) -> SettingDescription:
    """Return the description of a setting without effect. `dynamic` is its row if it can change."""
    name = other.name
    effect = "Refused, except with this value" if name in REFUSED else "Accepted without effect"
    given = None if other.kind is Kind.PASSWORD else settings.given.get(name)
    synonyms = [] if dynamic is None else _dynamic_synonyms(settings, dynamic)
    if name in settings.given:
        synonyms.append(Synonym(name, given, ConfigSource.STATIC_BROKER))
    if other.default is not None:
        synonyms.append(Synonym(name, other.default, ConfigSource.DEFAULT))
    value = synonyms[0].value if synonyms else None
    if value is not None:
        row = Setting(name, other.kind, None, "")
        # The broker does not check the settings of a start that have no effect.
        with suppress(InvalidValue):
            value = format_value(row.kind, parse_value(row, value))
    return SettingDescription(
        name,
        value,
        other.kind,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        dynamic is None,
        f"{effect}: {other.reason}.",
        tuple(synonyms),
    )


def describe_defaults(settings: Settings) -> Iterator[SettingDescription]:
    """Yield the dynamic settings of all brokers."""
    from oncelog_server.settings.dynamic import dynamic_row

    for name in settings.dynamic_defaults:
        row = dynamic_row(name)
        assert row is not None
        yield _dynamic(row, _dynamic_synonyms(settings, row)[-1:])


def _dynamic(row: Setting, synonyms: list[Synonym]) -> SettingDescription:
    first = synonyms[0]
    return SettingDescription(
        row.name, first.value, row.kind, first.source, False, row.doc, tuple(synonyms)
    )


def _synonym_names(name: str) -> tuple[str, ...]:
    """Return the name, and the settings that apply if it is not set, in their order."""
    row = HONOURED[name]
    names = SYNONYMS.get(row.topic or "", (name,))
    return names if names[0] == name else (name,)


def _synonyms_of_topic(settings: Settings, name: str) -> list[Synonym]:
    """Return the synonyms of a topic setting in the settings of the broker. As in Kafka, a setting
    of lower precedence is one only if the first setting has a value."""
    if name in SYNONYMS:
        first, *_ = names = SYNONYMS[name]
        synonyms = _broker_synonyms(settings, *names)
        return synonyms if synonyms and synonyms[0].name == first else []
    refused = REFUSED.get(f"log.{name}")
    if refused is None:
        return []
    return [Synonym(refused.name, refused.default, ConfigSource.DEFAULT)]


def _broker_synonyms(settings: Settings, *names: str) -> list[Synonym]:
    """Return the synonyms of these settings. For each setting, they begin with the value in force
    and end with the default. As in Kafka, a value that was set has its text."""
    synonyms = []
    for name in names:
        row = HONOURED[name]
        synonyms += _dynamic_synonyms(settings, row)
        if name in settings.given:
            text = None if row.kind is Kind.PASSWORD else settings.given[name]
            synonyms.append(Synonym(name, text, ConfigSource.STATIC_BROKER))
        if row.default is not None:
            default = format_value(row.kind, row.default)
            synonyms.append(Synonym(name, default, ConfigSource.DEFAULT))
    return synonyms


def _dynamic_synonyms(settings: Settings, row: Setting) -> list[Synonym]:
    return [
        Synonym(row.name, texts[row.name], source)
        for texts, source in (
            (settings.dynamic, ConfigSource.DYNAMIC_BROKER),
            (settings.dynamic_defaults, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        )
        if row.name in texts
    ]
