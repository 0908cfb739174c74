"""One struct for each effect that a decision about any group has in addition to its records. The
functions that carry them out are in `shard.py` (`EFFECTS`)."""

from __future__ import annotations

import msgspec

from oncelog_server.group.moment import Moment
from oncelog_server.group.sweep_limits import SweepLimits


class MemberSeen(msgspec.Struct, frozen=True):
    """The member has sent a request. The session of the member starts again."""

    group_id: str
    member_id: str


class SliceSwept(msgspec.Struct, frozen=True):
    """The sweep of expired offsets has decided about `group_count` more groups, with `record_count`
    tombstones. The first tombstone is of `first_group_id`, which is empty without tombstones."""

    group_count: int
    at: Moment
    record_count: int
    first_group_id: str
    limits: SweepLimits
