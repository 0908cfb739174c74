"""CreatePartitions (key 37, versions 0 to 3): adds partitions to topics.

* v1: a throttled client gets the response before the delay
* v2: flexible
* v3: THROTTLING_QUOTA_EXCEEDED (KIP-599)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int16, int32, string


@struct
class CreatePartitionsAssignment:
    """The replicas of one new partition, assigned by hand."""

    broker_ids: list[int] = array(int32)


@struct
class CreatePartitionsTopic:
    """A topic with its new total number of partitions."""

    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable=True
    )


@api_message(ApiKey.CREATE_PARTITIONS)
class CreatePartitionsRequest:
    """The topics that get more partitions. `validate_only`: only check the request (KIP-195)."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@struct
class CreatePartitionsTopicResult:
    """The outcome for one topic."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


@api_message(ApiKey.CREATE_PARTITIONS)
class CreatePartitionsResponse:
    """The outcome for each topic."""

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
