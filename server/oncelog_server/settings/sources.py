"""The sources of settings: files, the environment, arguments. Pure: texts in, assignments out.

The rule for names in the environment is that of Kafka's image (its KafkaDockerWrapper): strip the
prefix, `___` is `-`, `__` is `_`, `_` is `.`, all in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from oncelog_protocol.secret import HIDDEN, displayed
from oncelog_server.settings.image_variables import VARIABLES

KAFKA_PREFIX = "KAFKA_"
# The prefix of Bitnami's images of Kafka.
BITNAMI_PREFIX = "KAFKA_CFG_"
OUR_PREFIX = "ONCELOG_"
FROM_ARGUMENT = "--set"

# Variables of Kafka's image and scripts, those that Kubernetes sets for a service "kafka", and
# oncelog's own for injected faults and for the first users.
_NOT_SETTINGS: Final = (
    r"(VERSION|HOME|HEAP_OPTS?|OPTS|JVM_\w+|GC_LOG_OPTS|JMX_\w+|DEBUG|DEBUG_\w+|MODE"
    r"|LOG4J_\w+|TOOLS_LOG4J_\w+|(KRAFT_)?CLUSTER_ID|ENABLE_KRAFT|BOOTSTRAP_SERVER"
    r"|FAIL_AT|SYNC_DELAY_MS|BOOTSTRAP_USER_FILE"
    r"|SERVICE_(HOST|PORT)\w*|PORT|PORT_\d+_\w+)"
)


# KAFKA_CREATE_TOPICS of images of Kafka, which Kafka itself does not have.
_OF_IMAGES = {"create.topics"}


class SettingAssignment(msgspec.Struct, frozen=True):
    """A setting as it was written: its name, its text, and the source. `provider` names the config
    providers that gave parts of the text, which is then hidden; empty if there is none."""

    name: str
    text: str
    source: str
    provider: str = ""


class UnreadableSource(ValueError):
    """A source cannot be read: not a properties file, or an assignment without `=`."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason


class LookupFailed(Exception):
    """A config provider has no value. The message names path and key, and holds no value."""


def from_properties(text: str, source: str) -> list[SettingAssignment]:
    """Return the settings of a properties file. Raises UnreadableSource."""
    values = properties_of(text, source)
    return [SettingAssignment(name, value, source) for name, value in values.items()]


def properties_of(text: str, source: str) -> dict[str, str]:
    """Return the entries of a properties file, with Java's escapes and continued lines.

    Raises UnreadableSource.
    """
    import javaproperties  # the import is slow, and a start without a file does not need it

    try:
        return dict(javaproperties.loads(text))
    except ValueError as error:
        raise UnreadableSource(source, str(error)) from error


def name_of_variable(variable: str) -> str:
    """Return the setting's name: log.retention.ms for `LOG_RETENTION_MS`, a_b-c for `A__B___C`."""
    marked = variable.lower().replace("___", "-").replace("__", "\0")
    return marked.replace("_", ".").replace("\0", "_")


def from_environment(
    environment: Mapping[str, str], known: Iterable[str]
) -> list[SettingAssignment]:
    """Return the settings of KAFKA_*, then those of KAFKA_CFG_* and of ONCELOG_*. If a setting has
    several assignments, the last one counts.

    Variables of other programs are left out. With the prefix ONCELOG_ the name of an oncelog
    setting needs no second prefix: ONCELOG_FLUSH_ON_ACK is oncelog.flush.on.ack, as
    KAFKA_ONCELOG_FLUSH_ON_ACK is. `known` are the names of all settings.
    """
    names = frozenset(known)
    assignments: list[SettingAssignment] = []
    for prefix in (KAFKA_PREFIX, BITNAMI_PREFIX, OUR_PREFIX):
        for variable, text in sorted(environment.items()):
            rest = variable.removeprefix(prefix)
            if rest == variable or not rest or re.fullmatch(_NOT_SETTINGS, rest):
                continue
            if variable in VARIABLES:
                continue
            if prefix == KAFKA_PREFIX and variable.startswith(BITNAMI_PREFIX):
                continue
            name = name_of_variable(rest)
            may_be_ours = prefix == OUR_PREFIX or name in _OF_IMAGES
            if may_be_ours and name not in names and f"oncelog.{name}" in names:
                name = f"oncelog.{name}"
            assignments.append(SettingAssignment(name, text, f"environment variable {variable}"))
    return assignments


def from_argument(argument: str) -> SettingAssignment:
    """Return the setting of one --set argument. Raises UnreadableSource without name or `=`."""
    name, equals, text = argument.partition("=")
    if not equals or not name.strip():
        shown = HIDDEN if displayed(argument, argument) == HIDDEN else argument
        raise UnreadableSource(f"--set {shown}", "expected name=value")
    return SettingAssignment(name.strip(), text.strip(), FROM_ARGUMENT)
