"""DeleteAcls (key 31, versions 1 to 3): removes rights.

* v2: flexible
* v3: user resources (KIP-373)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int8, int16, int32, string


@struct
class DeleteAclsFilter:
    """A filter for rights to remove: null and ANY (1) match all."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable=True, default=None)
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable=True, default=None)
    host_filter: str | None = string(nullable=True, default=None)
    operation: int = int8()
    permission_type: int = int8()


@api_message(ApiKey.DELETE_ACLS)
class DeleteAclsRequest:
    """The filters."""

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


@struct
class DeleteAclsMatchingAcl:
    """One matching right, and the error if it was not deleted."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@struct
class DeleteAclsFilterResult:
    """The outcome for one filter."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


@api_message(ApiKey.DELETE_ACLS)
class DeleteAclsResponse:
    """The outcomes, in the order of the request."""

    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
