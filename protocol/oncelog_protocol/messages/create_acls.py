"""CreateAcls (key 30, versions 1 to 3): grants or denies rights.

* v2: flexible
* v3: user resources (KIP-373)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int8, int16, int32, string


@struct
class AclCreation:
    """One right to add."""

    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@api_message(ApiKey.CREATE_ACLS)
class CreateAclsRequest:
    """Rights to add."""

    creations: list[AclCreation] = array(AclCreation)


@struct
class AclCreationResult:
    """The outcome for one right."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


@api_message(ApiKey.CREATE_ACLS)
class CreateAclsResponse:
    """The outcomes, in the order of the request."""

    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
