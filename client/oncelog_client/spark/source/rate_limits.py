"""How many offsets of each partition a micro-batch may take.

In proportion to the backlogs, as Spark's own connector does, but never more than the limit in all,
and no partition with a backlog is left out for ever.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_client.values import TopicPartition


def shares(
    backlogs: Mapping[TopicPartition, int], limit: int, turn: int
) -> dict[TopicPartition, int]:
    """How much of each backlog to take: their sum is `limit`, or all there is if that is less.

    A partition with a backlog gets one offset at least, the rest goes in proportion (largest
    remainders first, so that nothing is left over). Where the limit is below the number of such
    partitions, it is the turn of as many as it allows: those from place `turn` on, in their order
    and round the end. With the sum of all positions as `turn`, which grows by the limit each time,
    everybody's turn comes.
    """
    waiting = sorted(partition for partition, backlog in backlogs.items() if backlog > 0)
    total = sum(backlogs[partition] for partition in waiting)
    taken = dict.fromkeys(backlogs, 0)
    if total <= limit:
        return taken | {partition: backlogs[partition] for partition in waiting}
    if limit < len(waiting):
        for place in range(limit):
            taken[waiting[(turn + place) % len(waiting)]] = 1
        return taken
    rest, others = limit - len(waiting), total - len(waiting)
    remainders = []
    for partition in waiting:
        share, remainder = divmod(rest * (backlogs[partition] - 1), others)
        taken[partition] = 1 + share
        remainders.append((-remainder, partition))
    left_over = limit - sum(taken.values())
    for _, partition in sorted(remainders)[:left_over]:
        taken[partition] += 1
    return taken


def must_wait(
    backlog: int, least: int | None, waited_ms: float | None, max_delay_ms: float
) -> bool:
    """Whether a trigger with fewer than `least` (`minOffsetsPerTrigger`) new offsets is left out:
    until `max_delay_ms` after the last one, and never before the first (`waited_ms` None)."""
    if least is None or waited_ms is None or waited_ms >= max_delay_ms:
        return False
    return backlog < least
