"""DescribeLogDirs (key 35), versions 1 to 5."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, boolean, int16, int32, int64, string


@struct
class DescribableLogDirTopic:
    """Describable log dir topic of DescribeLogDirsRequest."""

    topic: str = string()
    partitions: list[int] = array(int32)


@message(range(1, 6), flexible_since=2)
class DescribeLogDirsRequest:
    """The request of DescribeLogDirs, versions 1 to 5."""

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable_since=0)


@struct
class DescribeLogDirsPartition:
    """Describe log dirs partition of DescribeLogDirsResponse."""

    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@struct
class DescribeLogDirsTopic:
    """Describe log dirs topic of DescribeLogDirsResponse."""

    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@struct
class DescribeLogDirsResult:
    """Describe log dirs result of DescribeLogDirsResponse."""

    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(since=4, default=-1)
    usable_bytes: int = int64(since=4, default=-1)
    is_cordoned: bool = boolean(since=5)


@message(range(1, 6), flexible_since=2)
class DescribeLogDirsResponse:
    """The response of DescribeLogDirs, versions 1 to 5."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=3)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
