"""Heartbeat (key 12, versions 0 to 4): keeps a member in its group.

* v1: throttle time (KIP-124)
* v3: static members (KIP-345)
* v4: flexible
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.types import int16, int32, string


@api_message(ApiKey.HEARTBEAT)
class HeartbeatRequest:
    """A heartbeat of one member in one generation."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=True, default=None)


@api_message(ApiKey.HEARTBEAT)
class HeartbeatResponse:
    """REBALANCE_IN_PROGRESS asks the member to join again."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
