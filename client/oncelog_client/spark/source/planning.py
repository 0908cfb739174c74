"""The next end of a stream: what is new, what is lost, how much of it one micro-batch takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from oncelog_client.values import TopicPartition

from . import data_loss
from .offsets import Offsets
from .rate_limits import shares
from .splits import OffsetRange


class Logs(NamedTuple):
    """The partitions that exist. `ends` as far as may be read: the last stable offsets, or the
    high watermarks; `firsts` and `high_watermarks` where they were asked for, see `questions`."""

    ends: Offsets
    firsts: Offsets
    high_watermarks: Offsets
    recreated: frozenset[str]


class Questions(NamedTuple):
    """What else must be known of the logs before a batch can be planned."""

    firsts: frozenset[TopicPartition]
    high_watermarks: frozenset[TopicPartition]


class Positions(NamedTuple):
    """Where each partition is read on, and what is lost; nothing of it is new to a restart."""

    offsets: dict[TopicPartition, int]
    losses: tuple[str, ...]


def questions(position: Offsets, logs: Logs) -> Questions:
    """Of new partitions where they begin; of those that end before the position how far they
    really go, as records may just be undecided."""
    new = frozenset(end for end in logs.ends if end not in position or end.topic in logs.recreated)
    behind = frozenset(
        one for one, end in logs.ends.items() if one in position and end < position[one]
    )
    return Questions(new, behind)


def settled(position: Offsets, logs: Logs, last_ends: Offsets) -> Positions:
    """The position with partitions that came (at their first offset, to be read from the next
    batch on: so it is in the checkpoint before anything is) and without those that went."""
    offsets: dict[TopicPartition, int] = {}
    losses = [
        data_loss.gone(end, position[end], last_ends.get(end))
        for end in sorted(position.keys() - logs.ends.keys())
    ]
    known_topics = {one.topic for one in position}
    for one, end in sorted(logs.ends.items()):
        if one not in position:
            offsets[one] = first = logs.firsts[one]
            if first > 0 and one.topic in known_topics:
                losses.append(data_loss.begun_late(one, first))
        elif one.topic in logs.recreated:
            offsets[one] = logs.firsts[one]
            losses.append(data_loss.recreated(one, position[one], end))
        elif logs.high_watermarks.get(one, end) < position[one]:
            offsets[one] = end
            losses.append(data_loss.shrunk(one, position[one], logs.high_watermarks.get(one, end)))
        else:
            offsets[one] = position[one]
    return Positions(offsets, tuple(losses))


def backlogs(position: Offsets, settled_at: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
    """How many offsets there are to read of each partition. What came or was reset just now has
    none: its place must be in the checkpoint first."""
    return {
        one: max(ends[one] - offset, 0) if position.get(one) == offset else 0
        for one, offset in settled_at.items()
    }


def next_end(
    settled_at: Offsets, waiting: Mapping[TopicPartition, int], limit: int | None
) -> dict[TopicPartition, int]:
    """The end of the batch: `limit` offsets further in all, or as far as there is."""
    if limit is None:
        return {one: offset + waiting[one] for one, offset in settled_at.items()}
    taken = shares(waiting, limit, turn=sum(settled_at.values()))
    return {one: offset + taken[one] for one, offset in settled_at.items()}


def readable(
    ranges: Iterable[OffsetRange], firsts: Offsets, ends: Offsets | None
) -> tuple[list[OffsetRange], list[str]]:
    """What can be read of the ranges, and what is lost of them. `firsts`: where the logs of those
    that exist begin; `ends`: where they end, None where that is known to be far enough."""
    kept: list[OffsetRange] = []
    losses: list[str] = []
    for one, start, end in ranges:
        if one not in firsts:
            losses.append(data_loss.gone(one, start, end))
            continue
        first, last = firsts[one], end if ends is None else ends[one]
        if start < first:
            losses.append(data_loss.truncated(one, start, first))
        if last < max(start, end):
            losses.append(data_loss.ends_early(one, max(start, end), last))
        kept.append(OffsetRange(one, max(start, first), min(end, last)))
    return kept, losses
