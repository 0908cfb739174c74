"""Where settings come from, and how each source spells names. Pure: texts in, assignments out.

The rule for the environment is that of Apache Kafka's own image (its KafkaDockerWrapper): strip the
prefix, `___` is `-`, `__` is `_`, `_` is `.`, all in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from oncelog_protocol.secret import HIDDEN, displayed

KAFKA_PREFIX = "KAFKA_"
OUR_PREFIX = "ONCELOG_"
FROM_ARGUMENT = "--set"

# What Kafka's image and scripts use for themselves, and what Kubernetes sets for a service "kafka".
_NOT_SETTINGS = re.compile(
    r"(VERSION|HOME|HEAP_OPTS?|OPTS|JVM_\w+|GC_LOG_OPTS|JMX_\w+|DEBUG|DEBUG_\w+|MODE"
    r"|LOG4J_\w+|TOOLS_LOG4J_\w+|CLUSTER_ID|BOOTSTRAP_SERVER|FAIL_AT|SYNC_DELAY_MS"
    r"|SERVICE_(HOST|PORT)\w*|PORT|PORT_\d+_\w+)"
)


class Assignment(msgspec.Struct, frozen=True):
    """A setting as somebody wrote it: its name, the text, and where it was written."""

    name: str
    text: str
    source: str


class UnreadableSource(ValueError):
    """A file that is no properties file, or an assignment without `=`."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason


def from_properties(text: str, source: str) -> list[Assignment]:
    """A server.properties (escapes and continued lines as in Java). Raises UnreadableSource."""
    import javaproperties  # not needed by a start without a file, and slow to import

    try:
        values = javaproperties.loads(text)
    except ValueError as error:
        raise UnreadableSource(source, str(error)) from error
    return [Assignment(name, value, source) for name, value in values.items()]


def name_of_variable(variable: str) -> str:
    """`LOG_RETENTION_MS` is log.retention.ms, `A__B___C` is a_b-c."""
    marked = variable.lower().replace("___", "-").replace("__", "\0")
    return marked.replace("_", ".").replace("\0", "_")


def from_environment(environment: Mapping[str, str], known: Iterable[str]) -> list[Assignment]:
    """The settings of KAFKA_* and, over them, of ONCELOG_*; others' variables are left out.

    With our prefix a name may stand for one of our own: ONCELOG_FLUSH_ON_ACK is
    oncelog.flush.on.ack, as KAFKA_ONCELOG_FLUSH_ON_ACK is.
    """
    names = frozenset(known)
    assignments: list[Assignment] = []
    for prefix in (KAFKA_PREFIX, OUR_PREFIX):
        for variable, text in sorted(environment.items()):
            rest = variable.removeprefix(prefix)
            if rest == variable or not rest or _NOT_SETTINGS.fullmatch(rest):
                continue
            name = name_of_variable(rest)
            if prefix == OUR_PREFIX and name not in names and f"oncelog.{name}" in names:
                name = f"oncelog.{name}"
            assignments.append(Assignment(name, text, f"environment variable {variable}"))
    return assignments


def from_argument(argument: str) -> Assignment:
    """The argument of one --set. Raises UnreadableSource if it has no `=`."""
    name, equals, text = argument.partition("=")
    if not equals or not name.strip():
        shown = HIDDEN if displayed(argument, argument) == HIDDEN else argument
        raise UnreadableSource(f"--set {shown}", "expected name=value")
    return Assignment(name.strip(), text.strip(), FROM_ARGUMENT)
