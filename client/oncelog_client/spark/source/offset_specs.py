"""Resolves the positions of options (earliest, a time, the end of a sink's last batch) to
offsets."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_client.errors import KafkaError
from oncelog_client.spark.offsets import source_end
from oncelog_client.spark.offsets.offsets import (
    EARLIEST,
    LATEST,
    AtEdge,
    AtOffsets,
    AtSink,
    AtTime,
    AtTimes,
    Offsets,
    OffsetSpec,
)
from oncelog_client.spark.settings.options import OptionError
from oncelog_client.spark.source.plan.source_options import SourceOptions
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode

from .catalogue import Catalogue


async def resolve(
    catalogue: Catalogue,
    place: OffsetSpec,
    ends: Offsets,
    options: SourceOptions,
    *,
    starting: bool,
) -> dict[TopicPartition, int]:
    """Return an offset for each partition in `ends`. An offset found by time is at most the end.

    Raises OptionError if the option does not name exactly these partitions, if a partition has no
    record at or after its start time (and `startingOffsetsByTimestampStrategy` is "error"), or if
    the sink has no state. Raises NoSourceEnd if the sink's state has no offsets of the source.
    Raises KafkaError.
    """
    option = "startingOffsets" if starting else "endingOffsets"
    match place:
        case AtEdge(edge):
            return await _at(catalogue, dict.fromkeys(ends, edge), ends)
        case AtOffsets(rows):
            _check_named(option, dict(rows), ends)
            return await _at(catalogue, dict(rows), ends)
        case AtTimes(rows):
            _check_named(f"{option}ByTimestamp", dict(rows), ends)
            times_ms = dict(rows)
        case AtTime(time_ms):
            times_ms = dict.fromkeys(ends, time_ms)
        case AtSink(sink_id):
            return await at_sink_end(catalogue, await kept_by_sink(catalogue, sink_id), ends)
    found = await catalogue.at_times(times_ms, read_committed=options.read_committed)
    if starting and not options.latest_where_no_match:
        for partition in sorted(ends.keys() - found.keys()):
            raise OptionError(
                "startingOffsetsByTimestampStrategy",
                "error",
                f"{partition} has no record at or after timestamp {times_ms[partition]}",
            )
    # Records from `ends` on belong to the next batch.
    return {partition: min(found.get(partition, end), end) for partition, end in ends.items()}


async def _at(catalogue: Catalogue, specs: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
    early = frozenset(partition for partition, offset in specs.items() if offset == EARLIEST)
    firsts = await catalogue.firsts(early)
    if len(firsts) < len(early):
        missing = ", ".join(map(str, sorted(early - firsts.keys())))
        raise KafkaError(f"deleted meanwhile: {missing}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return {
        partition: firsts[partition]
        if offset == EARLIEST
        else ends[partition]
        if offset == LATEST
        else offset
        for partition, offset in specs.items()
    }


async def kept_by_sink(catalogue: Catalogue, sink_id: str) -> Offsets:
    """Return the source end in the state of a sink. Raises OptionError if the sink has no state,
    NoSourceEnd if the state has no source end, or KafkaError."""
    if not sink_id:
        raise OptionError("startingOffsets", "sink:", "names no sink")
    state = await catalogue.sink_state(sink_id)
    if state is None:
        raise OptionError("startingOffsets", f"sink:{sink_id}", "this sink has committed nothing")
    return source_end.of_sink(sink_id, state.source_end)


async def at_sink_end(
    catalogue: Catalogue, kept: Offsets, ends: Offsets
) -> dict[TopicPartition, int]:
    """Return an offset for each partition in `ends`: the one in `kept`, the source end of a sink,
    or the first offset of the partition. Raises KafkaError."""
    return await _at(catalogue, dict.fromkeys(ends, EARLIEST) | _of(kept, ends), ends)


def _of(offsets: Offsets, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    return {partition: offsets[partition] for partition in partitions if partition in offsets}


def _check_named(option: str, named: Offsets, there: Offsets) -> None:
    missing, extra = there.keys() - named.keys(), named.keys() - there.keys()
    if missing or extra:
        parts = [
            f"{text}: {', '.join(map(str, sorted(partitions)))}"
            for text, partitions in (("not named", missing), ("not there", extra))
            if partitions
        ]
        raise OptionError(option, None, f"must name all partitions, {'; '.join(parts)}")
