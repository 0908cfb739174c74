"""Offsets as JSON, and the options for start and end, in the order of their precedence.

The JSON is that of Spark's own Kafka connector: `{"purchases":{"0":123,"1":7}}`. Each number is the
offset of the next record to read. In options -2 means earliest and -1 means latest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from oncelog_client.spark.settings.options import (
    OptionError,
    Options,
    read_integer,
    read_json_object,
)
from oncelog_client.values import TopicPartition

Offsets = Mapping[TopicPartition, int]

EARLIEST: Final = -2
LATEST: Final = -1

_OFFSETS_SHOWN: Final = '{"purchases":{"0":23,"1":-2}}'
_TIMES_SHOWN: Final = '{"purchases":{"0":1700000000000}}'
_SINK: Final = "sink:"

# The JSON key for the start of a query. No topic can have this name. Until the query has read
# something, the value is the text of the option, and not the offsets that the option means: Spark
# requests the start more than once, and must get the same start.
START: Final = ":start"

# The JSON key for the source end at which a query has begun (`startingOffsets=sink:<sinkId>`). No
# topic can have this name. Only the first offset of a query has it. A sink that the query takes
# over compares this end with the end in its state.
SINK_END: Final = ":sinkEnd"


class AtEdge(NamedTuple):
    """At the first offset (EARLIEST), or after the last one (LATEST)."""

    edge: int


class AtOffsets(NamedTuple):
    """At a given position for each partition: an offset, EARLIEST or LATEST."""

    offsets: tuple[tuple[TopicPartition, int], ...]


class AtTimes(NamedTuple):
    """At the first record at or after a time. Each partition has its own time (ms since 1970)."""

    times_ms: tuple[tuple[TopicPartition, int], ...]


class AtTime(NamedTuple):
    """At the first record at or after a time (ms since 1970). The time holds for all partitions."""

    time_ms: int


class AtSink(NamedTuple):
    """At the end of the last batch that a sink committed. For queries that have lost their
    checkpoint."""

    sink_id: str


OffsetSpec = AtEdge | AtOffsets | AtTimes | AtTime | AtSink


class _Names(NamedTuple):
    """The options for a start or for an end, in the order of precedence."""

    time: str
    times: str
    offsets: str


_STARTING: Final = _Names("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDING: Final = _Names("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
ENDING_OPTIONS: Final = tuple(_ENDING)


def starting_spec(options: Options, *, streaming: bool) -> OffsetSpec:
    """Return the start of a query without a checkpoint. Raises OptionError.

    By default a stream begins at latest, and a batch at earliest.
    """
    place = _place(options, _STARTING) or AtEdge(LATEST if streaming else EARLIEST)
    if not streaming:
        _forbid(place, LATEST, _STARTING.offsets, "latest (-1) is no start of a batch")
    return place


def ending_spec(options: Options) -> OffsetSpec:
    """Return the end of a batch, by default latest. Raises OptionError."""
    place = _place(options, _ENDING) or AtEdge(LATEST)
    _forbid(place, EARLIEST, _ENDING.offsets, "earliest (-2) is no end")
    if isinstance(place, AtSink):
        raise OptionError(
            _ENDING.offsets, options.text(_ENDING.offsets), "only startingOffsets can be a sink"
        )
    return place


def check_order(start: OffsetSpec, end: OffsetSpec) -> None:
    """Raise OptionError if start and end list different partitions, or a start is after its end."""
    for kind, names in ((AtOffsets, "Offsets"), (AtTimes, "OffsetsByTimestamp")):
        if isinstance(start, kind) and isinstance(end, kind):
            starts, ends = dict(start[0]), dict(end[0])
            if starts.keys() != ends.keys():
                different = ", ".join(map(str, sorted(starts.keys() ^ ends.keys())))
                raise OptionError(
                    f"ending{names}", None, f"partitions in only one of start and end: {different}"
                )
            for partition, first in starts.items():
                last = ends[partition]
                if 0 <= last < first:
                    raise OptionError(
                        f"ending{names}", None, f"{partition}: start {first} is after end {last}"
                    )


def _place(options: Options, names: _Names) -> OffsetSpec | None:
    time = options.text(names.time)
    if time is not None:
        return AtTime(read_integer(names.time, time, least=0))
    times = options.text(names.times)
    if times is not None:
        return AtTimes(read_partitions(names.times, times, _TIMES_SHOWN, least=0))
    offsets = options.text(names.offsets)
    if offsets is None:
        return None
    if offsets.lower() in ("earliest", "latest"):
        return AtEdge(EARLIEST if offsets.lower() == "earliest" else LATEST)
    if offsets.startswith(_SINK):
        return AtSink(offsets.removeprefix(_SINK).strip())
    return AtOffsets(read_partitions(names.offsets, offsets, _OFFSETS_SHOWN, least=EARLIEST))


def _forbid(place: OffsetSpec, edge: int, option: str, reason: str) -> None:
    if place == AtEdge(edge):
        raise OptionError(option, "latest" if edge == LATEST else "earliest", reason)
    if isinstance(place, AtOffsets):
        for partition, offset in place.offsets:
            if offset == edge:
                raise OptionError(option, None, f"{partition}: {reason}")


def read_partitions(
    option: str, text: str, shown: str, *, least: int
) -> tuple[tuple[TopicPartition, int], ...]:
    """Read a number of `least` or more for each partition, from JSON. Raises OptionError."""
    found: dict[TopicPartition, int] = {}
    for topic, by_partition in read_json_object(option, text, shown).items():
        if not isinstance(by_partition, dict):
            raise OptionError(option, text, f"is no JSON such as {shown}")
        for partition, number in by_partition.items():
            if type(number) is not int or not partition.isdecimal():
                raise OptionError(option, text, f"is no JSON such as {shown}")
            if not least <= number < 1 << 63:
                raise OptionError(option, text, f"{topic}-{partition}: must be {least} or more")
            found[TopicPartition(topic, int(partition))] = number
    if not found:
        raise OptionError(option, text, f"names no partition; an example: {shown}")
    return tuple(sorted(found.items()))


# -- the offsets of a stream


def to_json(offsets: Offsets) -> dict[str, Any]:
    """Return the JSON, sorted by topic and partition because Spark compares the text."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(document: Mapping[str, Any]) -> dict[TopicPartition, int] | None:
    """Return the offsets, or None for the start of a query. Raises ValueError for any other
    JSON."""
    try:
        if isinstance(document.get(START), str):
            return None
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, by_partition in document.items()
            if topic not in (START, SINK_END)
            for partition, offset in by_partition.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"not an offset of this source: {json.dumps(document)}") from None


def whole_stream(start: Offsets, end: Offsets) -> dict[str, Any]:
    """Return, as JSON, the end of the first batch that is not empty (the only batch of
    `Trigger.Once`). The end contains the start, because the start is durable nowhere else."""
    return {**to_json(end), START: to_json(start)}


def carried_start(document: Mapping[str, Any]) -> dict[TopicPartition, int] | None:
    """Return the start that an end contains, or None if the end contains no start."""
    carried = document.get(START)
    return from_json(carried) if isinstance(carried, dict) else None


def with_sink_end(document: Mapping[str, Any], sink_id: str, end: Offsets) -> dict[str, Any]:
    """Return the first offset of a query, with the source end of the sink at which it begins."""
    return {**document, SINK_END: {sink_id: to_json(end)}}


def carried_sink_end(document: Mapping[str, Any], sink_id: str) -> dict[TopicPartition, int] | None:
    """Return the source end of this sink that an offset contains, or None if it contains none.
    Raises ValueError for a source end that is no offset of this source."""
    carried = document.get(SINK_END)
    if not isinstance(carried, dict) or sink_id not in carried:
        return None
    return from_json(carried[sink_id])


def start_symbol(place: OffsetSpec) -> dict[str, str]:
    """Return the start of a query as JSON that names `place`. Spark stores this JSON until the
    first batch has resolved the start to offsets."""
    return {START: _shown(place)}


def _shown(place: OffsetSpec) -> str:
    match place:
        case AtEdge(edge):
            return "earliest" if edge == EARLIEST else "latest"
        case AtOffsets(rows):
            return json.dumps(to_json(dict(rows)), separators=(",", ":"))
        case AtTimes(rows):
            times = json.dumps(to_json(dict(rows)), separators=(",", ":"))
            return f"timestamps {times}"
        case AtTime(time_ms):
            return f"timestamp {time_ms}"
        case AtSink(sink_id):
            return f"{_SINK}{sink_id}"
