"""JoinGroup (key 11), versions 0 to 9."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, boolean, bytestring, int16, int32, string


@struct
class JoinGroupRequestProtocol:
    """Join group request protocol of JoinGroupRequest."""

    name: str = string()
    metadata: bytes = bytestring()


@message(range(0, 10), flexible_since=6)
class JoinGroupRequest:
    """The request of JoinGroup, versions 0 to 9."""

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(since=1, default=-1)
    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable_since=5, default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string(since=8, nullable_since=8, default=None)


@struct
class JoinGroupResponseMember:
    """Join group response member of JoinGroupResponse."""

    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable_since=5, default=None)
    metadata: bytes = bytestring()


@message(range(0, 10), flexible_since=6)
class JoinGroupResponse:
    """The response of JoinGroup, versions 0 to 9."""

    throttle_time_ms: int = int32(since=2)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(since=7, nullable_since=7, default=None)
    protocol_name: str | None = string(nullable_since=7)
    leader: str = string()
    skip_assignment: bool = boolean(since=9)
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
