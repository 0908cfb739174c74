"""The options of kafka-configs.sh, and the settings that they name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from oncelog_client.cli.properties_file import parse_properties
from oncelog_client.kafka_tools.config_entities import DEFAULT_FLAGS, NAME_FLAGS
from oncelog_client.kafka_tools.failures import ILLEGAL_ARGUMENT, JavaError
from oncelog_client.kafka_tools.java_text import split_text
from oncelog_client.kafka_tools.options import Given, Option, Options

# The patterns of Kafka's tool: commas separate the pairs, but not in brackets.
_COMMA: Final = re.compile(r",(?=[^\]]*(?:\[|$))")
_EQUALS: Final = re.compile(r"\s*=\s*(?=[^\]]*(?:\[|$))")
_BRACKET: Final = re.compile(r"[\[\]]")
_NAME: Final = re.compile(r"[$a-zA-Z0-9._-]*")

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
            Option(option, f"An entity of the type {type_}.", "String")
            for option, type_ in NAME_FLAGS.items()
        ),
        *(Option(option, f"The defaults of {type_}.") for option, type_ in DEFAULT_FLAGS.items()),
    ],
)


def added(given: Given) -> dict[str, str]:
    """Return the settings to set. A file is read as java.util.Properties reads it: in ISO-8859-1,
    and a name alone has an empty value. Raises JavaError for another form, and for a file that
    cannot be read."""
    settings: dict[str, str] = {}
    path = given.value("add-config-file")
    if path is not None:
        try:
            text = Path(path).read_text(encoding="iso-8859-1")
        except OSError:
            raise JavaError("java.nio.file.NoSuchFileException", path) from None
        settings = dict(parse_properties(text, allow_bare_names=True))
    if given.has("add-config"):
        settings |= _pairs(given.value("add-config") or "")
    for name in settings:
        if not _NAME.fullmatch(name):
            raise JavaError(ILLEGAL_ARGUMENT, f"Invalid character found for config key: {name}")
    return settings


def _pairs(text: str) -> dict[str, str]:
    pairs = [_EQUALS.split(part) for part in split_text(text, _COMMA)]
    if any(len(pair) != 2 for pair in pairs):
        raise JavaError(
            ILLEGAL_ARGUMENT,
            "requirement failed: Invalid entity config: all configs to be added must be in the "
            'format "key=val" or  "key=[val1,val2]" to group values which contain commas.',
        )
    return {name.strip(): _BRACKET.sub("", value).strip() for name, value in pairs}


def deleted(given: Given) -> list[str]:
    """Return the names of the settings to remove."""
    names = [name.strip() for text in given.values("delete-config") for name in text.split(",")]
    return [name for name in names if name]
