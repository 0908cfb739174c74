"""The number of offsets of each partition that a micro-batch may take.

The limit is shared in proportion to the backlogs, as by Spark's own connector. The sum never
exceeds the limit, and every partition with a backlog gets a share in time.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_client.values import TopicPartition


def shares(
    backlogs: Mapping[TopicPartition, int], limit: int, turn: int
) -> dict[TopicPartition, int]:
    """Return the share of each partition. The sum is `limit`, or the whole backlog if that is less.

    If the limit allows, each partition with a backlog gets at least one offset. The rest is shared
    in proportion, largest remainders first, so that no offset is left over. If the limit is less
    than the number of partitions with a backlog, `limit` of these partitions get one offset each.
    They are taken in sorted order from index `turn` (modulo the number of partitions) on, and from
    index 0 after the last partition. `turn` is the sum of all positions. This sum grows by the
    limit each time, so every partition gets its turn.
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
    """Return True to skip a trigger with fewer than `least` new offsets (`minOffsetsPerTrigger`).
    Triggers are skipped until `max_delay_ms` after the last batch. The first batch (`waited_ms`
    None) is never skipped."""
    if least is None or waited_ms is None or waited_ms >= max_delay_ms:
        return False
    return backlog < least
