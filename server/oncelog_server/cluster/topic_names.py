"""Which names a topic may have: Kafka's Topic class."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
# Ours, of Spark's exactly-once sinks: how far a sink is, is a group's offset of this topic, which
# never holds a record.
SINKS: Final = "__oncelog_sink"
CLUSTER_METADATA: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SINKS})

MAX_NAME_LENGTH: Final = 249
# Of a name that is refused: with all of it the reason could be longer than a string may be.
MAX_NAME_SHOWN: Final = 1_000
_LEGAL = re.compile(r"[a-zA-Z0-9._-]*")


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def check_topic_name(name: str) -> None:
    """Raises Refused with INVALID_TOPIC_EXCEPTION, worded as Kafka does."""
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
    """Names by what metrics call them, of those that could collide."""
    return {unified(name): name for name in names if "." in name or "_" in name}


def unified(name: str) -> str:
    """Metrics know no difference between `.` and `_`."""
    return name.replace(".", "_")


def check_collision(name: str, existing: Mapping[str, str]) -> None:
    """`existing` are those of `by_unified_name`: names that differ only in `.` and `_` would be one
    in metrics. Raises Refused."""
    other = existing.get(unified(name), name)
    if other != name:
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )
