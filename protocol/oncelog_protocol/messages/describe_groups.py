"""DescribeGroups (key 15, versions 0 to 6): describes groups and their members.

* v1: throttle time (KIP-124)
* v3: authorized operations (KIP-430)
* v4: static members (KIP-345)
* v5: flexible
* v6: GROUP_ID_NOT_FOUND with a message (KIP-1043)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, bytestring, int16, int32, string


@api_message(ApiKey.DESCRIBE_GROUPS)
class DescribeGroupsRequest:
    """The requested groups."""

    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean(since=3)


@struct
class DescribedGroupMember:
    """A member with its subscription and assignment."""

    member_id: str = string()
    group_instance_id: str | None = string(since=4, nullable=True, default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = bytestring()
    member_assignment: bytes = bytestring()


@struct
class DescribedGroup:
    """State, protocol and members of one group."""

    error_code: int = int16()
    error_message: str | None = string(since=6, nullable=True, default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(since=3, default=-2147483648)


@api_message(ApiKey.DESCRIBE_GROUPS)
class DescribeGroupsResponse:
    """One description for each group."""

    throttle_time_ms: int = int32(since=1)
    groups: list[DescribedGroup] = array(DescribedGroup)
