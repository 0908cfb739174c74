"""The next end of a stream: new and lost partitions, and the size of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from oncelog_client.spark.offsets.offsets import Offsets
from oncelog_client.values import TopicPartition

from . import data_loss
from .rate_limits import shares
from .splits import OffsetRange


class Logs(NamedTuple):
    """The partitions that exist. `ends`: the last stable offsets, or the high watermarks, as the
    isolation level says. `firsts` and `high_watermarks` have only the partitions that `questions`
    returns. `recreated`: the topics that were deleted and created again."""

    ends: Offsets
    firsts: Offsets
    high_watermarks: Offsets
    recreated: frozenset[str]


class Questions(NamedTuple):
    """The partitions with offsets that must be requested before a batch can be planned."""

    firsts: frozenset[TopicPartition]
    high_watermarks: frozenset[TopicPartition]


class SettledOffsets(NamedTuple):
    """The next offset of each partition, and the losses. The first offset of a new partition is in
    the checkpoint before its records are read, so a restarted query begins at the same offset."""

    offsets: dict[TopicPartition, int]
    losses: tuple[str, ...]


def questions(position: Offsets, logs: Logs) -> Questions:
    """Return the partitions with offsets to request. New partitions need their first offset.
    Partitions that end before the position need their high watermark, because the records between
    their end and the position may belong to open transactions."""
    new = frozenset(end for end in logs.ends if end not in position or end.topic in logs.recreated)
    behind = frozenset(
        partition
        for partition, end in logs.ends.items()
        if partition in position and end < position[partition]
    )
    return Questions(new, behind)


def settled(position: Offsets, logs: Logs, last_ends: Offsets) -> SettledOffsets:
    """Return the position with new partitions and without deleted partitions. A new partition is
    read from the next batch on, so that the checkpoint has its first offset before its records are
    read."""
    offsets: dict[TopicPartition, int] = {}
    losses = [
        data_loss.gone(end, position[end], last_ends.get(end))
        for end in sorted(position.keys() - logs.ends.keys())
    ]
    known_topics = {partition.topic for partition in position}
    for partition, end in sorted(logs.ends.items()):
        if partition not in position:
            offsets[partition] = first = logs.firsts[partition]
            if first > 0 and partition.topic in known_topics:
                losses.append(data_loss.begun_late(partition, first))
        elif partition.topic in logs.recreated:
            offsets[partition] = logs.firsts[partition]
            losses.append(data_loss.recreated(partition, position[partition], end))
        elif logs.high_watermarks.get(partition, end) < position[partition]:
            offsets[partition] = end
            losses.append(
                data_loss.shrunk(
                    partition, position[partition], logs.high_watermarks.get(partition, end)
                )
            )
        else:
            offsets[partition] = position[partition]
    return SettledOffsets(offsets, tuple(losses))


def backlogs(position: Offsets, settled_at: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
    """Return the number of offsets to read of each partition. The number is 0 for a new or reset
    partition, because the checkpoint must have its first offset before its records are read."""
    return {
        partition: max(ends[partition] - offset, 0) if position.get(partition) == offset else 0
        for partition, offset in settled_at.items()
    }


def next_end(
    settled_at: Offsets, waiting: Mapping[TopicPartition, int], limit: int | None
) -> dict[TopicPartition, int]:
    """Return the end of the batch. `waiting`: the backlog of each partition. The batch has at most
    `limit` offsets, summed over all partitions. With None, it goes to the ends of the logs."""
    if limit is None:
        return {partition: offset + waiting[partition] for partition, offset in settled_at.items()}
    taken = shares(waiting, limit, turn=sum(settled_at.values()))
    return {partition: offset + taken[partition] for partition, offset in settled_at.items()}


def readable(
    ranges: Iterable[OffsetRange], firsts: Offsets, ends: Offsets | None
) -> tuple[list[OffsetRange], list[str]]:
    """Return the readable part of the ranges, and the losses. `firsts`: the first offsets of the
    partitions that exist. `ends`: the ends of these partitions, or None if no range goes
    beyond the end of its partition."""
    kept: list[OffsetRange] = []
    losses: list[str] = []
    for partition, start, end in ranges:
        if partition not in firsts:
            losses.append(data_loss.gone(partition, start, end))
            continue
        first, last = firsts[partition], end if ends is None else ends[partition]
        if start < first:
            losses.append(data_loss.truncated(partition, start, first))
        if last < max(start, end):
            losses.append(data_loss.ends_early(partition, max(start, end), last))
        kept.append(OffsetRange(partition, max(start, first), min(end, last)))
    return kept, losses
