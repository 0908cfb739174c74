"""Settings as DescribeConfigs and CreateTopics show them: values, sources and synonyms.

Sources and synonyms are those of Kafka's ConfigHelper (KIP-226). The synonym in force comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import IntEnum
from itertools import dropwhile

import msgspec

from oncelog_server.settings.accepted import ACCEPTED
from oncelog_server.settings.listener_settings import PREFIX as LISTENER_PREFIX
from oncelog_server.settings.listener_settings import listener_setting
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
        synonyms = _synonyms(settings, name, *_others(name))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        text = format_value(row.kind, value)
        read_only = name not in DYNAMIC
        yield SettingDescription(name, text, row.kind, source, read_only, row.doc, tuple(synonyms))
    for row in THROTTLES.values():
        synonyms = _synonyms(settings, row.name)
        if synonyms:
            yield _dynamic(row, synonyms)
    for name in dict.fromkeys((*settings.dynamic, *settings.dynamic_defaults)):
        limit = dynamic_row(name) if name.startswith(LISTENER_PREFIX) else None
        if limit is not None:
            yield _dynamic(limit, _synonyms(settings, name, *_others(name)))
    for name, other in (*ACCEPTED.items(), *REFUSED.items()):
        yield _unhonoured(settings, other, THREAD_COUNTS.get(name))


def _unhonoured(
    settings: Settings, other: Unhonoured, dynamic: Setting | None
) -> SettingDescription:
    """Return the description of a setting without effect. `dynamic` is its row if it can change."""
    name = other.name
    effect = "Refused, except with this value" if name in REFUSED else "Accepted without effect"
    synonyms = _synonyms(settings, name)
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

    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    for name in settings.dynamic_defaults:
        row = dynamic_row(name)
        assert row is not None
        shown = _synonyms(settings, name, *_others(name))
        yield _dynamic(row, [synonym for synonym in shown if synonym.source is source])


def _dynamic(row: Setting, synonyms: list[Synonym]) -> SettingDescription:
    first = synonyms[0]
    # As in Kafka, the settings of a listener are called read-only, although they can change.
    read_only = row.name.startswith(LISTENER_PREFIX)
    return SettingDescription(
        row.name, first.value, row.kind, first.source, read_only, row.doc, tuple(synonyms)
    )


def _others(name: str) -> tuple[str, ...]:
    """Return the settings that apply if a setting of the broker has no value. They may include the
    setting itself."""
    own = listener_setting(name)
    if own is not None:
        return (own.name,)
    row = HONOURED.get(name)
    return SYNONYMS.get(row.topic or "", ()) if row is not None else ()


def _synonyms_of_topic(settings: Settings, name: str) -> list[Synonym]:
    """Return the synonyms of a topic setting in the settings of the broker."""
    names = SYNONYMS.get(name, (f"log.{name}",) if f"log.{name}" in REFUSED else ())
    return _synonyms(settings, *names) if names else []


def _synonyms(settings: Settings, first: str, *others: str) -> list[Synonym]:
    """Return the values of the setting `first`, and those that apply if it has none, in the order
    of their sources. As in Kafka, they begin with a value of `first`: without one, there are no
    synonyms."""
    names = others if first in others else (first, *others)
    found = [synonym for name in names for synonym in _own_synonyms(settings, name)]
    found.sort(key=lambda synonym: synonym.source)
    return list(dropwhile(lambda synonym: synonym.name != first, found))


def _own_synonyms(settings: Settings, name: str) -> list[Synonym]:
    """Return the values of a setting, the one in force first and the default last. As in Kafka, a
    value that was set has its text."""
    found = []
    if name in settings.dynamic:
        found.append(Synonym(name, settings.dynamic[name], ConfigSource.DYNAMIC_BROKER))
    if name in settings.dynamic_defaults:
        text = settings.dynamic_defaults[name]
        found.append(Synonym(name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER))
    row = HONOURED.get(name) or ACCEPTED.get(name) or REFUSED.get(name)
    if row is None:
        return found
    if name in settings.given:
        given = None if row.kind is Kind.PASSWORD else settings.given[name]
        found.append(Synonym(name, given, ConfigSource.STATIC_BROKER))
    if row.default is not None:
        # The default of a setting without effect is a text already.
        default = row.default if isinstance(row, Unhonoured) else None
        default = default or format_value(row.kind, row.default)
        found.append(Synonym(name, default, ConfigSource.DEFAULT))
    return found
