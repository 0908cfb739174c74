"""The numbers of threads, which have no effect here, and how far Kafka lets one change at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from oncelog_server.settings.accepted import ACCEPTED
from oncelog_server.settings.listener_settings import PREFIX
from oncelog_server.settings.listeners import client_listeners
from oncelog_server.settings.model import Settings
from oncelog_server.settings.table import InvalidValue, Kind, Setting, at_least, parse_value

CLEANER: Final = "log.cleaner.threads"
NETWORK: Final = "num.network.threads"
_NAMES: Final = (
    "background.threads",
    CLEANER,
    "num.io.threads",
    NETWORK,
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)

# Settings that Kafka can change while a broker runs (DynamicThreadPool, SocketServer, LogCleaner),
# and that have no effect here.
THREAD_COUNTS: Final[dict[str, Setting]] = {
    name: Setting(
        name,
        Kind.INT,
        int(ACCEPTED[name].default or 0),
        f"Accepted without effect: {ACCEPTED[name].reason}.",
        at_least(0 if name == CLEANER else 1),
    )
    for name in _NAMES
}

# The dynamic settings of a broker, and those of all brokers.
Layers = tuple[Mapping[str, str], Mapping[str, str]]


def check_steps(settings: Settings, before: Layers, after: Layers) -> None:
    """Raise InvalidValue, worded as in Kafka, if a number of threads becomes smaller than half of
    the number before, or larger than its double.

    Each listener has its own number of network threads, or that of the broker.
    """
    listeners = [f"{PREFIX}{found.name.lower()}.{NETWORK}" for found in client_listeners(settings)]
    for name in (*listeners, *(name for name in THREAD_COUNTS if name != NETWORK)):
        old, new = (thread_count(settings, layers, name) for layers in (before, after))
        reason = _reason(name, old, new)
        if reason is not None:
            raise InvalidValue(
                f"Invalid value org.apache.kafka.common.config.ConfigException: {reason} for "
                "configuration Invalid dynamic configuration"
            )


def thread_count(settings: Settings, layers: Layers, name: str) -> int:
    """Return the number in force with these dynamic settings."""
    names = (name, NETWORK) if name.startswith(PREFIX) else (name,)
    row = THREAD_COUNTS[names[-1]]
    for known in names:
        for texts in (*layers, settings.given):
            if known in texts:
                try:
                    return cast(int, parse_value(row, texts[known]))
                except InvalidValue:
                    # The settings of a start are not checked, because they have no effect.
                    continue
    return cast(int, row.default)


def _reason(name: str, old: int, new: int) -> str | None:
    """Return the reason for which a number of threads cannot change, None if it can."""
    if name == CLEANER:
        return _reason_of_cleaner(old, new)
    shown = NETWORK if name.startswith(PREFIX) else name
    failed = f"Dynamic thread count update validation failed for {shown}={new}"
    if new < old // 2:
        return f"{failed}, value should be at least half the current value {old}"
    if new > old * 2:
        return f"{failed}, value should not be greater than double the current value {old}"
    return None


def _reason_of_cleaner(old: int, new: int) -> str | None:
    if new < 1:
        return "Log cleaner threads should be at least 1"
    if new < old // 2:
        return f"Log cleaner threads cannot be reduced to less than half the current value {old}"
    if new > old * 2:
        return (
            f"Log cleaner threads cannot be increased to more than double the current value {old}"
        )
    return None
