"""LeaveGroup (key 13), versions 0 to 5."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, int16, int32, string


@struct
class MemberIdentity:
    """Member identity of LeaveGroupRequest."""

    member_id: str = string(since=3)
    group_instance_id: str | None = string(since=3, nullable_since=3, default=None)
    reason: str | None = string(since=5, nullable_since=5, default=None)


@message(range(0, 6), flexible_since=4)
class LeaveGroupRequest:
    """The request of LeaveGroup, versions 0 to 5."""

    group_id: str = string()
    member_id: str = string(until=2)
    members: list[MemberIdentity] = array(MemberIdentity, since=3)


@struct
class MemberResponse:
    """Member response of LeaveGroupResponse."""

    member_id: str = string(since=3)
    group_instance_id: str | None = string(since=3, nullable_since=3)
    error_code: int = int16(since=3)


@message(range(0, 6), flexible_since=4)
class LeaveGroupResponse:
    """The response of LeaveGroup, versions 0 to 5."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, since=3)
