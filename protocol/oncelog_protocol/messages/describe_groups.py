"""DescribeGroups (key 15), versions 0 to 6."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, boolean, bytestring, int16, int32, string


@message(range(0, 7), flexible_since=5)
class DescribeGroupsRequest:
    """The request of DescribeGroups, versions 0 to 6."""

    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean(since=3)


@struct
class DescribedGroupMember:
    """Described group member of DescribeGroupsResponse."""

    member_id: str = string()
    group_instance_id: str | None = string(since=4, nullable_since=4, default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = bytestring()
    member_assignment: bytes = bytestring()


@struct
class DescribedGroup:
    """Described group of DescribeGroupsResponse."""

    error_code: int = int16()
    error_message: str | None = string(since=6, nullable_since=6, default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(since=3, default=-2147483648)


@message(range(0, 7), flexible_since=5)
class DescribeGroupsResponse:
    """The response of DescribeGroups, versions 0 to 6."""

    throttle_time_ms: int = int32(since=1)
    groups: list[DescribedGroup] = array(DescribedGroup)
