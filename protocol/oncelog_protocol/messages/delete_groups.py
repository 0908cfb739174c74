"""DeleteGroups (key 42), versions 0 to 3."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, int16, int32, string


@message(range(0, 4), flexible_since=2)
class DeleteGroupsRequest:
    """The request of DeleteGroups, versions 0 to 3."""

    groups_names: list[str] = array(string)


@struct
class DeletableGroupResult:
    """Deletable group result of DeleteGroupsResponse."""

    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string(since=3, nullable_since=3, default=None)


@message(range(0, 4), flexible_since=2)
class DeleteGroupsResponse:
    """The response of DeleteGroups, versions 0 to 3."""

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
