"""What a decision about any group makes happen besides its records, as values. The rows that carry
them out are in `shard.py` (`EFFECTS`)."""

from __future__ import annotations

import msgspec

from oncelog_server.group.moment import Moment


class MemberSeen(msgspec.Struct, frozen=True):
    """The member has sent a request: its session begins anew."""

    group_id: str
    member_id: str


class OffsetsExpired(msgspec.Struct, frozen=True):
    """Tombstones of expired offsets. If they fail, the next sweep is soon enough."""

    at: Moment
