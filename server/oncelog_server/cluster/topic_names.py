"""Which names a topic may have: Kafka's Topic class."""

from __future__ import annotations

import re
from collections.abc import Iterable
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


def check_collision(name: str, existing: Iterable[str]) -> None:
    """Names that differ only in `.` and `_` would be one in metrics. Raises Refused."""
    if "." not in name and "_" not in name:
        return
    unified = name.replace(".", "_")
    for other in existing:
        if other != name and other.replace(".", "_") == unified:
            raise Refused(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}",
            )
