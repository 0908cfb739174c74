"""SyncGroup (key 14), versions 0 to 5."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, bytestring, int16, int32, string


@struct
class SyncGroupRequestAssignment:
    """Sync group request assignment of SyncGroupRequest."""

    member_id: str = string()
    assignment: bytes = bytestring()


@message(range(0, 6), flexible_since=4)
class SyncGroupRequest:
    """The request of SyncGroup, versions 0 to 5."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable_since=3, default=None)
    protocol_type: str | None = string(since=5, nullable_since=5, default=None)
    protocol_name: str | None = string(since=5, nullable_since=5, default=None)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@message(range(0, 6), flexible_since=4)
class SyncGroupResponse:
    """The response of SyncGroup, versions 0 to 5."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    protocol_type: str | None = string(since=5, nullable_since=5, default=None)
    protocol_name: str | None = string(since=5, nullable_since=5, default=None)
    assignment: bytes = bytestring()
