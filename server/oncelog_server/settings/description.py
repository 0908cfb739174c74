"""Settings as DescribeConfigs and CreateTopics show them: values, sources and synonyms.

Sources and synonyms are those of Kafka's ConfigHelper (KIP-226). The synonym in force comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum

import msgspec

from oncelog_server.settings.accepted import ACCEPTED
from oncelog_server.settings.model import HONOURED, Settings
from oncelog_server.settings.table import Kind, SettingValue, format_value
from oncelog_server.settings.topics import INTERNAL, SYNONYMS, TOPIC_SETTINGS, topic_values


class ConfigSource(IntEnum):
    """Kafka's DescribeConfigsResponse.ConfigSource."""

    TOPIC = 1
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
        for broker_name in SYNONYMS.get(name, ()):
            synonyms += _broker_synonyms(settings, broker_name)
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
    """Yield every setting of the broker that is honored, or accepted without effect.

    All are read-only, because none can change while the broker runs.
    """
    for name, row in HONOURED.items():
        value: SettingValue = getattr(settings, row.attribute)
        synonyms = _broker_synonyms(settings, name)
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        text = format_value(row.kind, value)
        yield SettingDescription(name, text, row.kind, source, True, row.doc, tuple(synonyms))
    for name, other in ACCEPTED.items():
        default = Synonym(name, other.default, ConfigSource.DEFAULT)
        given = settings.given.get(name)
        shown = None if other.kind is Kind.PASSWORD else given
        first = default if given is None else Synonym(name, shown, ConfigSource.STATIC_BROKER)
        yield SettingDescription(
            name,
            first.value,
            other.kind,
            first.source,
            True,
            f"Accepted without effect: {other.reason}.",
            (default,) if given is None else (first, default),
        )


def _broker_synonyms(settings: Settings, name: str) -> list[Synonym]:
    row = HONOURED[name]
    synonyms = []
    if name in settings.given:
        text = format_value(row.kind, getattr(settings, row.attribute))
        synonyms.append(Synonym(name, text, ConfigSource.STATIC_BROKER))
    if row.default is not None:
        default = format_value(row.kind, row.default)
        synonyms.append(Synonym(name, default, ConfigSource.DEFAULT))
    return synonyms
