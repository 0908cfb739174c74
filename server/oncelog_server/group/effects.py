"""One struct for each effect that a decision about any group has in addition to its records. The
functions that carry them out are in `shard.py` (`EFFECTS`)."""

from __future__ import annotations

import msgspec

from oncelog_server.group.moment import Moment


class MemberSeen(msgspec.Struct, frozen=True):
    """The member has sent a request. The session of the member starts again."""

    group_id: str
    member_id: str


class SweepLimits(msgspec.Struct, frozen=True):
    """The limits of the slices of a sweep, beside those of the settings.

    `bytes_max` is the maximum size of a slice's records. It falls during a sweep if the log accepts
    no batch of this size. `left_out` are groups with a tombstone that is too large for the log.
    """

    bytes_max: int
    left_out: frozenset[str] = frozenset()


class SliceSwept(msgspec.Struct, frozen=True):
    """The sweep of expired offsets has decided about `group_count` more groups, with `record_count`
    tombstones. The first tombstone is of `first_group_id`, which is empty without tombstones."""

    group_count: int
    at: Moment
    record_count: int
    first_group_id: str
    limits: SweepLimits
