"""The rules for topic names, those of Kafka's Topic class, and the internal topics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
# Oncelog's own, for Spark's exactly-once sinks. A sink keeps its progress as a group's committed
# offset of this topic; the topic never holds a record.
SINKS: Final = "__oncelog_sink"
CLUSTER_METADATA: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SINKS})

MAX_NAME_LENGTH: Final = 249
# Maximum number of characters of an invalid name in an error message. With the whole name the
# message could exceed the length of a Kafka string.
MAX_NAME_SHOWN: Final = 1_000
_LEGAL = re.compile(r"[a-zA-Z0-9._-]*")


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def check_topic_name(name: str) -> None:
    """Raise Refused with INVALID_TOPIC_EXCEPTION, worded as in Kafka, if the name is invalid."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        shown = name[:MAX_NAME_SHOWN]
        reason = f"the length of '{shown}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _LEGAL.fullmatch(name):
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    else:
        return
    raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def by_unified_name(names: Iterable[str]) -> dict[str, str]:
    """Return the names that could collide in metrics, by their unified form."""
    return {unified(name): name for name in names if "." in name or "_" in name}


def unified(name: str) -> str:
    """Return the name in the form of Kafka's metrics, which do not distinguish `.` and `_`."""
    return name.replace(".", "_")


def check_collision(name: str, existing: Mapping[str, str]) -> None:
    """Raise Refused if metrics could not distinguish `name` from an existing topic.

    `existing` is the result of `by_unified_name`.
    """
    other = existing.get(unified(name), name)
    if other != name:
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )
