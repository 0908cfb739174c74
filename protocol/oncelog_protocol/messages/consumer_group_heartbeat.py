"""ConsumerGroupHeartbeat (key 68, versions 0 to 1): the membership in a group of the consumer
protocol (KIP-848).

* v1: subscription by a regular expression of RE2/J
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int16, int32, nested, string, uuid


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@api_message(ApiKey.CONSUMER_GROUP_HEARTBEAT)
class ConsumerGroupHeartbeatRequest:
    """The member, its subscription, and the partitions that it owns."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable=True, default=None)
    rack_id: str | None = string(nullable=True, default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, nullable=True, default=None)
    subscribed_topic_regex: str | None = string(since=1, nullable=True, default=None)
    server_assignor: str | None = string(nullable=True, default=None)
    topic_partitions: list[TopicPartitions] | None = array(
        TopicPartitions, nullable=True, default=None
    )


@struct
class Assignment:
    """The partitions that the member shall own."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@api_message(ApiKey.CONSUMER_GROUP_HEARTBEAT)
class ConsumerGroupHeartbeatResponse:
    """The member's epoch and assignment."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    member_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nested(Assignment, nullable=True, default=None)
