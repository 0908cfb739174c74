"""CreateTopics (key 19), versions 2 to 7."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, boolean, int8, int16, int32, string, uuid


@struct
class CreatableReplicaAssignment:
    """Creatable replica assignment of CreateTopicsRequest."""

    partition_index: int = int32()
    broker_ids: list[int] = array(int32)


@struct
class CreatableTopicConfig:
    """Creatable topic config of CreateTopicsRequest."""

    name: str = string()
    value: str | None = string(nullable_since=0)


@struct
class CreatableTopic:
    """Creatable topic of CreateTopicsRequest."""

    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@message(range(2, 8), flexible_since=5)
class CreateTopicsRequest:
    """The request of CreateTopics, versions 2 to 7."""

    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean()


@struct
class CreatableTopicConfigs:
    """Creatable topic configs of CreateTopicsResponse."""

    name: str = string(since=5)
    value: str | None = string(since=5, nullable_since=5)
    read_only: bool = boolean(since=5)
    config_source: int = int8(since=5, default=-1)
    is_sensitive: bool = boolean(since=5)


@struct
class CreatableTopicResult:
    """Creatable topic result of CreateTopicsResponse."""

    name: str = string()
    topic_id: bytes = uuid(since=7)
    error_code: int = int16()
    error_message: str | None = string(nullable_since=1)
    topic_config_error_code: int = int16(since=5, tag=0)
    num_partitions: int = int32(since=5, default=-1)
    replication_factor: int = int16(since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, since=5, nullable_since=5
    )


@message(range(2, 8), flexible_since=5)
class CreateTopicsResponse:
    """The response of CreateTopics, versions 2 to 7."""

    throttle_time_ms: int = int32()
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
