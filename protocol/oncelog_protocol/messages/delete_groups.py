"""DeleteGroups (key 42, versions 0 to 3): deletes groups without members.

* v1: a throttled client gets the response before the delay
* v2: flexible
* v3: a message with the error
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int16, int32, string


@api_message(ApiKey.DELETE_GROUPS)
class DeleteGroupsRequest:
    """The groups to delete (KIP-229)."""

    groups_names: list[str] = array(string)


@struct
class DeletableGroupResult:
    """The outcome for one group."""

    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string(since=3, nullable=True, default=None)


@api_message(ApiKey.DELETE_GROUPS)
class DeleteGroupsResponse:
    """The outcome for each group."""

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
