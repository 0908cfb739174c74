"""ListGroups (key 16, versions 0 to 5): lists the groups that this broker coordinates.

* v1: throttle time (KIP-124)
* v3: flexible
* v4: states (KIP-518)
* v5: types (KIP-848)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int16, int32, string


@api_message(ApiKey.LIST_GROUPS)
class ListGroupsRequest:
    """The requested states and types; an empty list requests all."""

    states_filter: list[str] = array(string, since=4)
    types_filter: list[str] = array(string, since=5)


@struct
class ListedGroup:
    """One group of the list."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(since=4)
    group_type: str = string(since=5)


@api_message(ApiKey.LIST_GROUPS)
class ListGroupsResponse:
    """The groups."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
