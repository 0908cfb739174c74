"""FindCoordinator (key 10), versions 0 to 6."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, int8, int16, int32, string


@message(range(0, 7), flexible_since=3)
class FindCoordinatorRequest:
    """The request of FindCoordinator, versions 0 to 6."""

    key: str = string(until=3)
    key_type: int = int8(since=1)
    coordinator_keys: list[str] = array(string, since=4)


@struct
class Coordinator:
    """Coordinator of FindCoordinatorResponse."""

    key: str = string(since=4)
    node_id: int = int32(since=4)
    host: str = string(since=4)
    port: int = int32(since=4)
    error_code: int = int16(since=4)
    error_message: str | None = string(since=4, nullable_since=4)


@message(range(0, 7), flexible_since=3)
class FindCoordinatorResponse:
    """The response of FindCoordinator, versions 0 to 6."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16(until=3)
    error_message: str | None = string(since=1, until=3, nullable_since=1)
    node_id: int = int32(until=3)
    host: str = string(until=3)
    port: int = int32(until=3)
    coordinators: list[Coordinator] = array(Coordinator, since=4)
