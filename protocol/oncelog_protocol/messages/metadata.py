"""Metadata (key 3), versions 0 to 13."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, boolean, int16, int32, string, uuid


@struct
class MetadataRequestTopic:
    """Metadata request topic of MetadataRequest."""

    topic_id: bytes = uuid(since=10)
    name: str | None = string(nullable_since=10)


@message(range(0, 14), flexible_since=9)
class MetadataRequest:
    """The request of Metadata, versions 0 to 13."""

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable_since=1)
    allow_auto_topic_creation: bool = boolean(since=4, default=True)
    include_cluster_authorized_operations: bool = boolean(since=8, until=10)
    include_topic_authorized_operations: bool = boolean(since=8)


@struct
class MetadataResponseBroker:
    """Metadata response broker of MetadataResponse."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(since=1, nullable_since=1, default=None)


@struct
class MetadataResponsePartition:
    """Metadata response partition of MetadataResponse."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(since=7, default=-1)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, since=5)


@struct
class MetadataResponseTopic:
    """Metadata response topic of MetadataResponse."""

    error_code: int = int16()
    name: str | None = string(nullable_since=12)
    topic_id: bytes = uuid(since=10)
    is_internal: bool = boolean(since=1)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(since=8, default=-2147483648)


@message(range(0, 14), flexible_since=9)
class MetadataResponse:
    """The response of Metadata, versions 0 to 13."""

    throttle_time_ms: int = int32(since=3)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(since=2, nullable_since=2, default=None)
    controller_id: int = int32(since=1, default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(since=8, until=10, default=-2147483648)
    error_code: int = int16(since=13)
