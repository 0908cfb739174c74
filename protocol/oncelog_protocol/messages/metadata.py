"""Metadata (key 3, versions 0 to 13): names brokers, topics, partitions and their leaders.

* v1: controller, racks, internal topics; null requests all topics
* v2: cluster id (KIP-78)
* v3: throttle time (KIP-124)
* v4: a client may forbid auto-creation
* v5: offline replicas (KIP-112)
* v7: leader epoch (KIP-320)
* v8: authorized operations (KIP-430)
* v9: flexible
* v10: topic ids (KIP-516)
* v11: no authorized operations of the cluster (KIP-700)
* v12: topics may be requested by id
* v13: an error for the whole response (KIP-1102)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int16, int32, string, uuid


@struct
class MetadataRequestTopic:
    """A topic by name, or by id from version 12 on."""

    topic_id: bytes = uuid(since=10)
    name: str | None = string(nullable_since=10)


@api_message(ApiKey.METADATA)
class MetadataRequest:
    """The requested topics: null for all (an empty list in version 0)."""

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable_since=1)
    allow_auto_topic_creation: bool = boolean(since=4, default=True)
    include_cluster_authorized_operations: bool = boolean(since=8, until=10)
    include_topic_authorized_operations: bool = boolean(since=8)


@struct
class MetadataResponseBroker:
    """A broker and its address on the listener that received the request."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(since=1, nullable=True, default=None)


@struct
class MetadataResponsePartition:
    """Leader and replicas of one partition."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(since=7, default=-1)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, since=5)


@struct
class MetadataResponseTopic:
    """One topic and its partitions."""

    error_code: int = int16()
    name: str | None = string(nullable_since=12)
    topic_id: bytes = uuid(since=10)
    is_internal: bool = boolean(since=1)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(since=8, default=-2147483648)


@api_message(ApiKey.METADATA)
class MetadataResponse:
    """The cluster as this broker knows it."""

    throttle_time_ms: int = int32(since=3)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(since=2, nullable=True, default=None)
    controller_id: int = int32(since=1, default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(since=8, until=10, default=-2147483648)
    error_code: int = int16(since=13)
