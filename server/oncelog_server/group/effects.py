"""One struct for each effect that a decision about any group has in addition to its records. The
functions that carry them out are in `shard.py` (`EFFECTS`)."""

from __future__ import annotations

import msgspec

from oncelog_server.group.moment import Moment


class MemberSeen(msgspec.Struct, frozen=True):
    """The member has sent a request. The session of the member starts again."""

    group_id: str
    member_id: str


class SliceSwept(msgspec.Struct, frozen=True):
    """The sweep of expired offsets has decided about `group_count` more groups. If the append of
    the tombstones fails, the next sweep decides about these groups again."""

    group_count: int
    at: Moment
