"""DescribeLogDirs (key 35, versions 1 to 5).

Returns the directories of the broker, with their partitions and the size of each.

* v1: a throttled client gets the response before the delay
* v2: flexible
* v3: an error for the whole response
* v4: size of the volumes (KIP-827)
* v5: cordoned directories (KIP-1066)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.features import OWN_TAGS
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int16, int32, int64, string


@struct
class DescribableLogDirTopic:
    """Partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(int32)


@api_message(ApiKey.DESCRIBE_LOG_DIRS)
class DescribeLogDirsRequest:
    """The requested partitions; null requests all."""

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable=True)


@struct
class OutOfSyncReplica:
    """A follower outside of the ISR, and the time since it was caught up."""

    broker_id: int = int32()
    out_of_sync_ms: int = int64()


@struct
class DescribeLogDirsPartition:
    """The size of one partition."""

    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()
    out_of_sync: list[OutOfSyncReplica] = array(
        OutOfSyncReplica, since=2, tag=OWN_TAGS["out_of_sync"]
    )


@struct
class DescribeLogDirsTopic:
    """Partitions of one topic."""

    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@struct
class DescribeLogDirsResult:
    """One directory."""

    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(since=4, default=-1)
    usable_bytes: int = int64(since=4, default=-1)
    is_cordoned: bool = boolean(since=5)


@api_message(ApiKey.DESCRIBE_LOG_DIRS)
class DescribeLogDirsResponse:
    """The directories of this broker."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=3)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
