"""The options of kafka-topics.sh that exclude each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oncelog_client.kafka_tools.options import Given

_ACTIONS: Final = ("alter", "create", "describe", "list", "delete")
_REPORTS: Final = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
# option -> the actions that it belongs to, in the order of the checks of Kafka's tool
_BELONGS: Final = {
    "config": {"alter", "create"},
    "partitions": {"alter", "create"},
    "replication-factor": {"create"},
    "replica-assignment": {"alter", "create"},
    **{report: {"describe"} for report in _REPORTS},
    "topics-with-overrides": {"describe"},
    "if-exists": {"alter", "delete", "describe"},
    "if-not-exists": {"create"},
    "exclude-internal": {"list", "describe"},
}
# option -> more options that it excludes
_EXCLUDES: Final = {
    **dict.fromkeys(_REPORTS, ("topics-with-overrides",)),
    "topics-with-overrides": _REPORTS,
}


def excluded_options(given: Given) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each option with the options that it excludes."""
    if given.has("alter") and given.has("config"):
        yield "config", ("alter",)
    for option, actions in _BELONGS.items():
        others = tuple(action for action in _ACTIONS if action not in actions)
        yield option, (*others, *_EXCLUDES.get(option, ()))
        if option == "replica-assignment" and given.has("create"):
            yield option, ("partitions", "replication-factor")
