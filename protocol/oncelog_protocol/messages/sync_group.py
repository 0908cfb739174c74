"""SyncGroup (key 14, versions 0 to 5): hands each member the assignment the leader made.

* v1: throttle time (KIP-124)
* v3: static members (KIP-345)
* v4: flexible
* v5: protocol type and name are checked (KIP-559)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, bytestring, int16, int32, string


@struct
class SyncGroupRequestAssignment:
    """The leader's assignment for one member."""

    member_id: str = string()
    assignment: bytes = bytestring()


@api_message(ApiKey.SYNC_GROUP)
class SyncGroupRequest:
    """The leader sends all assignments, the other members none."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=True, default=None)
    protocol_type: str | None = string(since=5, nullable=True, default=None)
    protocol_name: str | None = string(since=5, nullable=True, default=None)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@api_message(ApiKey.SYNC_GROUP)
class SyncGroupResponse:
    """The assignment of the member. The response is sent when the leader has sent all
    assignments."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    protocol_type: str | None = string(since=5, nullable=True, default=None)
    protocol_name: str | None = string(since=5, nullable=True, default=None)
    assignment: bytes = bytestring()
