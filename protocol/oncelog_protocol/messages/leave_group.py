"""LeaveGroup (key 13, versions 0 to 5): takes members out of a group.

* v1: throttle time (KIP-124)
* v3: several members, static ones too (KIP-345)
* v4: flexible
* v5: a reason (KIP-800)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int16, int32, string


@struct
class MemberIdentity:
    """A member by its id or its static instance id."""

    member_id: str = string(since=3)
    group_instance_id: str | None = string(since=3, nullable=True, default=None)
    reason: str | None = string(since=5, nullable=True, default=None)


@api_message(ApiKey.LEAVE_GROUP)
class LeaveGroupRequest:
    """The members that leave."""

    group_id: str = string()
    member_id: str = string(until=2)
    members: list[MemberIdentity] = array(MemberIdentity, since=3)


@struct
class MemberResponse:
    """The outcome for one member."""

    member_id: str = string(since=3)
    group_instance_id: str | None = string(since=3, nullable=True)
    error_code: int = int16(since=3)


@api_message(ApiKey.LEAVE_GROUP)
class LeaveGroupResponse:
    """The outcome for each member."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, since=3)
