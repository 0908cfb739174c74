"""A batch that is to end among records which nobody has decided yet.

They are in the log and not lost: `failOnDataLoss` does not bear on them, as going on without them
would read too little.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_client.values import TopicPartition

from .offsets import Offsets
from .splits import OffsetRange


class UndecidedError(RuntimeError):
    """An offset that was asked for lies behind an open transaction."""


def beyond(ranges: Iterable[OffsetRange], stable_ends: Offsets) -> frozenset[TopicPartition]:
    """Those that go further than the last stable offset: lost or undecided, which the high
    watermark tells."""
    return frozenset(one for one, start, end in ranges if stable_ends[one] < max(start, end))


def check_decided(
    ranges: Iterable[OffsetRange], stable_ends: Offsets, high_watermarks: Offsets
) -> None:
    """`high_watermarks`: of those that are `beyond`, as far as they exist. Raises UndecidedError
    for all ranges that are in the log, but go further than its last stable offset."""
    undecided = [
        (one, max(start, end))
        for one, start, end in ranges
        if stable_ends[one] < max(start, end) <= high_watermarks.get(one, -1)
    ]
    if undecided:
        lines = [
            f"topic {one.topic}, partition {one.partition} is not decided yet up to offset {asked}:"
            f" its last stable offset is {stable_ends[one]}"
            for one, asked in undecided
        ]
        topics = sorted({one.topic for one, _ in undecided})
        commands = ", ".join(f"oncelog transactions blocking {topic}" for topic in topics)
        advice = f"nothing is lost: read again later; who has a transaction open there: {commands}"
        raise UndecidedError("\n".join([*lines, advice]))
