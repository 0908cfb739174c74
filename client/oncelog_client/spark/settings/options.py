"""The options of `format("oncelog")`: names in any case, values as text, read with a type.

Names and defaults are those of Spark's own Kafka connector. OPTIONS marks the others as "ours".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from oncelog_protocol.secret import HIDDEN, Secret, displayed

KAFKA_PREFIX: Final = "kafka."

# Option -> the side on which the option has an effect. `remarks` warns of other names.
OPTIONS: Final[Mapping[str, str]] = {
    # The partitions that are read.
    "subscribe": "source",
    "subscribePattern": "source",
    "assign": "source",
    # The start and the end of a read.
    "startingOffsets": "source",
    "startingTimestamp": "source",
    "startingOffsetsByTimestamp": "source",
    "startingOffsetsByTimestampStrategy": "source",
    "endingOffsets": "source",
    "endingTimestamp": "source",
    "endingOffsetsByTimestamp": "source",
    # The size of a batch, and the number of its tasks.
    "maxOffsetsPerTrigger": "source",
    "minOffsetsPerTrigger": "source",
    "maxTriggerDelay": "source",
    "minPartitions": "source",
    "maxRecordsPerPartition": "source",
    # The way of reading.
    "failOnDataLoss": "source",
    "includeHeaders": "source and sink",
    "groupIdPrefix": "source",
    "kafkaConsumer.pollTimeoutMs": "source",
    "fetchOffset.numRetries": "source",
    "fetchOffset.retryIntervalMs": "source",
    "commitOffsetsToGroup": "source, ours",
    # The options of the sink.
    "topic": "sink",
    "checkpointLocation": "sink",
    "sinkId": "sink, ours",
    "sinkProtocol": "sink, ours",
    "onNewCheckpoint": "sink, ours",
    "txnAppId": "sink, ours",
    "txnVersion": "sink, ours",
    # Options that Spark itself gives to every source and sink.
    "path": "spark",
    "queryName": "spark",
}

_SPELLING: Final = {name.lower(): name for name in OPTIONS}

# Spark's units of time in milliseconds (`JavaUtils.timeStringAs`). "us" is below a millisecond.
_UNITS_MS: Final[Mapping[str, float]] = {
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_DURATION: Final = re.compile(r"(-?[0-9]+)([a-z]+)?", re.ASCII)
_WHOLE: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_BOOLEANS: Final = {"true": True, "false": False}


class OptionError(ValueError):
    """An option is missing, or its value is refused. The message has the option, its value and the
    expected form. The message omits a value that may be a secret, because messages get into the
    driver's logs, notebooks and bug reports."""

    def __init__(self, name: str, value: str | Secret | None, wanted: str) -> None:
        shown = None if value is None else displayed(name, value)
        self.name = name
        self.value = HIDDEN if isinstance(value, Secret) or shown == HIDDEN else value
        given = name if value is None else f"{name}={shown}"
        super().__init__(f"option {given}: {wanted}")

    def __reduce__(self) -> tuple[type[OptionError], tuple[str, str | None, str]]:
        wanted = str(self).partition(": ")[2]
        return (OptionError, (self.name, self.value, wanted))


class Options:
    """The options as Spark passes them. Every method may raise OptionError.

    The object is picklable and immutable, because a reader takes it to the executors.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    @property
    def kafka(self) -> dict[str, str]:
        """The settings of Kafka's clients: the options `kafka.*` without the prefix."""
        return {
            name.removeprefix(KAFKA_PREFIX): value
            for name, value in self._values.items()
            if name.startswith(KAFKA_PREFIX)
        }

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return a sentence about each unknown option, with the most similar known name."""
        sentences = []
        for name in sorted(self._values):
            if name in _SPELLING or name.startswith((KAFKA_PREFIX, "__")):
                continue
            near = get_close_matches(name, list(_SPELLING), n=1, cutoff=0.8)
            hint = f"; did you mean {_SPELLING[near[0]]}?" if near else ""
            sentences.append(f"there is no option {name!r}, it has no effect{hint}")
        return tuple(sentences)

    def text(self, name: str) -> str | None:
        """Return the value without spaces at its ends, or None if the option is missing."""
        value = self._values.get(name.lower())
        return None if value is None else value.strip()

    def required(self, name: str) -> str:
        """Return the value. Raises OptionError if it is missing or empty."""
        value = self.text(name)
        if not value:
            raise OptionError(name, value, "is needed")
        return value

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """Return the entry of `choices` that equals the value, ignoring case, or `default` if the
        option is missing."""
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in choices:
            raise OptionError(name, value, f"is not one of {', '.join(choices)}")
        return value.lower()

    def boolean(self, name: str, default: bool) -> bool:
        value = self.text(name)
        return default if value is None else read_boolean(name, value)

    def integer(self, name: str, *, least: int) -> int | None:
        """Return a whole number of `least` or more, or None if the option is missing."""
        value = self.text(name)
        return None if value is None else read_integer(name, value, least=least)

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Return a time such as `"15m"`, `"30s"`, `"250ms"` in ms, or `default_ms` if the option is
        missing. A number without a unit is in ms."""
        value = self.text(name)
        if value is None:
            return default_ms
        found = _DURATION.fullmatch(value.lower())
        unit = _UNITS_MS.get(found[2] or "ms") if found else None
        if found is None or unit is None or int(found[1]) < 0:
            raise OptionError(name, value, f"is no time such as 15m ({', '.join(_UNITS_MS)})")
        return int(int(found[1]) * unit)

    def json_object(self, name: str, shown: str) -> dict[str, Any] | None:
        """Return the value as a JSON object. The error shows `shown` as an example."""
        value = self.text(name)
        return None if value is None else read_json_object(name, value, shown)


def read_boolean(name: str, value: str) -> bool:
    """Return `true` or `false` in any case, as Scala reads them. Raises OptionError."""
    if value.lower() not in _BOOLEANS:
        raise OptionError(name, value, "is neither true nor false")
    return _BOOLEANS[value.lower()]


def read_integer(name: str, value: str, *, least: int | None = None) -> int:
    """Return a whole number of at most 64 bits. Raises OptionError."""
    if not _WHOLE.fullmatch(value) or len(value) > 20 or not -(1 << 63) <= int(value) < 1 << 63:
        raise OptionError(name, value, "is no whole number")
    if least is not None and int(value) < least:
        raise OptionError(name, value, f"must be {least} or more")
    return int(value)


def read_json_object(name: str, value: str, shown: str) -> dict[str, Any]:
    """Return a JSON object without repeated names. Raises OptionError."""
    try:
        found = json.loads(value, object_pairs_hook=_without_repeats)
    except ValueError as error:
        raise OptionError(name, value, f"is no JSON such as {shown}: {error}") from None
    if not isinstance(found, dict):
        raise OptionError(name, value, f"is no JSON object such as {shown}")
    return found


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{', '.join(twice)} twice")
    return found
