"""The options of kafka-configs.sh, and the entity that they name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from oncelog_client.kafka_tools.failures import ILLEGAL_ARGUMENT, JavaError
from oncelog_client.kafka_tools.options import Given, Option, Options

# A type in --entity-type -> the option for one entity of the type, and for its defaults
_TYPES: Final = {
    "topics": ("topic", None),
    "clients": ("client", "client-defaults"),
    "users": ("user", "user-defaults"),
    "brokers": ("broker", "broker-defaults"),
    "ips": ("ip", "ip-defaults"),
    "client-metrics": ("client-metrics", None),
    "groups": ("group", None),
    "broker-loggers": ("broker-logger", None),
}
# key=value or key=[a,b]. Commas separate the pairs.
_PAIR: Final = re.compile(r"([^=,]+)=(\[[^\]]*\]|[^,]*)(?:,|$)")

OPTIONS: Final = Options(
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker, "
    "ip, client-metrics or group",
    [
        Option("add-config", "Settings: k1=v1,k2=[a,b].", "String"),
        Option("add-config-file", "A file of settings.", "String"),
        Option("all", "Describe all settings, with defaults."),
        Option("alter", "Change settings."),
        Option("bootstrap-controller", "Not available.", "String: controller to connect to"),
        Option("bootstrap-server", "A broker.", "String: server to connect to"),
        Option("command-config", "Client settings.", "String: command config property file"),
        Option("delete-config", "Names of settings: k1,k2.", "String"),
        Option("describe", "Print settings."),
        Option("entity-default", "The defaults of an --entity-type."),
        Option("entity-name", "A name of an --entity-type.", "String"),
        Option("entity-type", "A type of entity.", "String"),
        *(
            Option(option, f"An entity of the type {name}.", "String")
            for name, (option, _) in _TYPES.items()
        ),
        *(
            Option(defaults, f"The defaults of {name}.")
            for name, (_, defaults) in _TYPES.items()
            if defaults
        ),
    ],
)


class Entity(NamedTuple):
    """The entity of a command. `name` is None for all entities of the type, "" for the defaults."""

    type: str
    name: str | None


def entity_of(given: Given) -> Entity:
    """Return the entity. Raises JavaError if there is none, or if the type is unknown."""
    for name, (option, defaults) in _TYPES.items():
        if given.has(option):
            return Entity(name, given.value(option))
        if defaults and given.has(defaults):
            return Entity(name, "")
    text = given.value("entity-type")
    if text is None:
        raise JavaError(ILLEGAL_ARGUMENT, "At least one entity type must be specified")
    if text not in _TYPES:
        raise JavaError(
            ILLEGAL_ARGUMENT,
            f"Invalid entity type {text}, the entity type must be one of topics, clients, users, "
            "brokers, ips, client-metrics, groups, broker-loggers with a --bootstrap-server or "
            "--bootstrap-controller argument",
        )
    return Entity(text, "" if given.has("entity-default") else given.value("entity-name"))


def added(given: Given) -> dict[str, str]:
    """Return the settings to set. Raises JavaError for another form, and for a file that cannot be
    read."""
    settings: dict[str, str] = {}
    path = given.value("add-config-file")
    if path is not None:
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except OSError:
            raise JavaError("java.nio.file.NoSuchFileException", path) from None
        pairs = [line.partition("=") for line in lines if line.strip()[:1] not in ("", "#", "!")]
        settings = {name.strip(): value.strip() for name, _, value in pairs}
    text = (given.value("add-config") or "").strip()
    at = 0
    while at < len(text):
        pair = _PAIR.match(text, at)
        if pair is None:
            raise JavaError(
                ILLEGAL_ARGUMENT,
                "requirement failed: Invalid entity config: all configs to be added must be in the "
                'format "key=val" or  "key=[val1,val2]" to group values which contain commas.',
            )
        settings[pair[1].strip()] = pair[2].strip().strip("[]")
        at = pair.end()
    return settings


def deleted(given: Given) -> list[str]:
    """Return the names of the settings to remove."""
    names = (given.value("delete-config") or "").split(",")
    return [name.strip() for name in names if name.strip()]
