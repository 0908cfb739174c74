"""ShareGroupHeartbeat (key 76, version 1): the membership in a share group (KIP-932)."""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int16, int32, nested, string, uuid


@api_message(ApiKey.SHARE_GROUP_HEARTBEAT)
class ShareGroupHeartbeatRequest:
    """The member and its subscription."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable=True, default=None)
    subscribed_topic_names: list[str] | None = array(string, nullable=True, default=None)


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@struct
class Assignment:
    """The partitions that the member may read."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@api_message(ApiKey.SHARE_GROUP_HEARTBEAT)
class ShareGroupHeartbeatResponse:
    """The member's epoch and assignment."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    member_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nested(Assignment, nullable=True, default=None)
