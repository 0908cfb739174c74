"""CreateTopics (key 19, versions 2 to 7): creates topics.

* v2: throttle time (KIP-124)
* v4: -1 as the number of partitions or replicas means the broker's default (KIP-464)
* v5: flexible; settings in the response (KIP-525)
* v6: THROTTLING_QUOTA_EXCEEDED (KIP-599)
* v7: topic ids (KIP-516)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int8, int16, int32, string, uuid


@struct
class CreatableReplicaAssignment:
    """The replicas of one partition, assigned by hand."""

    partition_index: int = int32()
    broker_ids: list[int] = array(int32)


@struct
class CreatableTopicConfig:
    """One setting of the topic."""

    name: str = string()
    value: str | None = string(nullable=True)


@struct
class CreatableTopic:
    """One topic to create."""

    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@api_message(ApiKey.CREATE_TOPICS)
class CreateTopicsRequest:
    """Topics to create, or only to check."""

    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean()


@struct
class CreatableTopicConfigs:
    """One setting of the new topic."""

    name: str = string(since=5)
    value: str | None = string(since=5, nullable=True)
    read_only: bool = boolean(since=5)
    config_source: int = int8(since=5, default=-1)
    is_sensitive: bool = boolean(since=5)


@struct
class CreatableTopicResult:
    """The outcome for one topic."""

    name: str = string()
    topic_id: bytes = uuid(since=7)
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    topic_config_error_code: int = int16(since=5, tag=0)
    num_partitions: int = int32(since=5, default=-1)
    replication_factor: int = int16(since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, since=5, nullable=True
    )


@api_message(ApiKey.CREATE_TOPICS)
class CreateTopicsResponse:
    """The outcome for each topic."""

    throttle_time_ms: int = int32()
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
