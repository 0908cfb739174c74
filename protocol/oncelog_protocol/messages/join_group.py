"""JoinGroup (key 11, versions 0 to 9).

Makes a member take part in the next generation of its group.

* v1: rebalance timeout (KIP-62)
* v2: throttle time (KIP-124)
* v4: MEMBER_ID_REQUIRED before a new member joins (KIP-394)
* v5: static members (KIP-345)
* v6: flexible
* v7: protocol type in the response (KIP-559)
* v8: a reason (KIP-800)
* v9: the leader may skip the assignment (KIP-814)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, bytestring, int16, int32, string


@struct
class JoinGroupRequestProtocol:
    """An assignor the member knows, with its subscription."""

    name: str = string()
    metadata: bytes = bytestring()


@api_message(ApiKey.JOIN_GROUP)
class JoinGroupRequest:
    """A member that joins, with its protocols."""

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(since=1, default=-1)
    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable=True, default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string(since=8, nullable=True, default=None)


@struct
class JoinGroupResponseMember:
    """A member. Only the leader's response lists the members."""

    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable=True, default=None)
    metadata: bytes = bytestring()


@api_message(ApiKey.JOIN_GROUP)
class JoinGroupResponse:
    """The new generation; sent when all members have joined or the rebalance timeout has passed."""

    throttle_time_ms: int = int32(since=2)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(since=7, nullable=True, default=None)
    protocol_name: str | None = string(nullable_since=7)
    leader: str = string()
    skip_assignment: bool = boolean(since=9)
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
