"""Settings in arguments and results of the admin client. The names are those of the Java client."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, NamedTuple


class ResourceType(IntEnum):
    """The kinds of resources that have settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A resource that has settings. For a broker, `name` is the broker's id."""

    type: ResourceType
    name: str


class ConfigSource(IntEnum):
    """The sources of a setting's value."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    """A value of the setting from one source. `ConfigEntry.synonyms` begins with the value in
    force."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting. The value of a sensitive setting is None."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Return True if no source has set the value."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class AlterConfigOp(NamedTuple):
    """A change of one setting. Append and subtract are for lists (KIP-339)."""

    name: str
    value: str | None = None
    op: Literal["set", "delete", "append", "subtract"] = "set"
