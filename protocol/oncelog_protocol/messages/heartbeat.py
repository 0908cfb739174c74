"""Heartbeat (key 12), versions 0 to 4."""

from __future__ import annotations

from oncelog_protocol.schema import message
from oncelog_protocol.types import int16, int32, string


@message(range(0, 5), flexible_since=4)
class HeartbeatRequest:
    """The request of Heartbeat, versions 0 to 4."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable_since=3, default=None)


@message(range(0, 5), flexible_since=4)
class HeartbeatResponse:
    """The response of Heartbeat, versions 0 to 4."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
