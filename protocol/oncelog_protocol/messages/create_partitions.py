"""CreatePartitions (key 37), versions 0 to 3."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, boolean, int16, int32, string


@struct
class CreatePartitionsAssignment:
    """Create partitions assignment of CreatePartitionsRequest."""

    broker_ids: list[int] = array(int32)


@struct
class CreatePartitionsTopic:
    """Create partitions topic of CreatePartitionsRequest."""

    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable_since=0
    )


@message(range(0, 4), flexible_since=2)
class CreatePartitionsRequest:
    """The request of CreatePartitions, versions 0 to 3."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@struct
class CreatePartitionsTopicResult:
    """Create partitions topic result of CreatePartitionsResponse."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)


@message(range(0, 4), flexible_since=2)
class CreatePartitionsResponse:
    """The response of CreatePartitions, versions 0 to 3."""

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
