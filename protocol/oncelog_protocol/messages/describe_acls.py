"""DescribeAcls (key 29, versions 1 to 3): lists ACLs.

* v2: flexible
* v3: user resources (KIP-373)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int8, int16, int32, string


@api_message(ApiKey.DESCRIBE_ACLS)
class DescribeAclsRequest:
    """The filter of rights: null and ANY (1) match all."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable=True, default=None)
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable=True, default=None)
    host_filter: str | None = string(nullable=True, default=None)
    operation: int = int8()
    permission_type: int = int8()


@struct
class AclDescription:
    """One right."""

    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@struct
class DescribeAclsResource:
    """The rights on one resource or pattern."""

    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    acls: list[AclDescription] = array(AclDescription)


@api_message(ApiKey.DESCRIBE_ACLS)
class DescribeAclsResponse:
    """The rights that match."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)
