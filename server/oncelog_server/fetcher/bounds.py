"""The place where a follower continues after OFFSET_OUT_OF_RANGE, from the start and end of the
leader's log (Kafka's fetchOffsetAndTruncate)."""

from __future__ import annotations

from oncelog_server.partition.follower_log import Cut


def cut_into(leader_start: int, leader_end: int, own_end: int) -> Cut | None:
    """Return the cut that brings the follower's end into the leader's log, None if the end is in
    it.

    If the leader's log ends before the follower's, there was an unclean election. The follower
    drops the records that the leader does not have. If the leader's log begins after the follower's
    end, the leader has deleted records that the follower needs next, for example while the follower
    was down. The follower drops all records and begins again.
    """
    if leader_end < own_end:
        return Cut(leader_end)
    if leader_start > own_end:
        return Cut(leader_start, restarts=True)
    return None
