"""ConsumerGroupDescribe (key 69, versions 0 to 1): describes groups of the consumer protocol and
their members (KIP-848).

* v1: the protocol of each member (KIP-1099)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int8, int16, int32, nested, string, uuid


@api_message(ApiKey.CONSUMER_GROUP_DESCRIBE)
class ConsumerGroupDescribeRequest:
    """The requested groups."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


@struct
class Assignment:
    """Partitions of a member."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@struct
class Member:
    """A member with its subscription and both assignments."""

    member_id: str = string()
    instance_id: str | None = string(nullable=True, default=None)
    rack_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable=True, default=None)
    assignment: Assignment = nested(Assignment)
    target_assignment: Assignment = nested(Assignment)
    member_type: int = int8(since=1, default=-1)


@struct
class DescribedGroup:
    """State, epochs and members of one group."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)


@api_message(ApiKey.CONSUMER_GROUP_DESCRIBE)
class ConsumerGroupDescribeResponse:
    """One description for each group."""

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
