"""AlterReplicaLogDirs (key 34, versions 1 and 2): moves replicas to other data directories of their
broker (KIP-113).

* v2: flexible
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int16, int32, string


@struct
class AlterReplicaLogDirTopic:
    """Partitions of one topic."""

    name: str = string()
    partitions: list[int] = array(int32)


@struct
class AlterReplicaLogDir:
    """A data directory, and the partitions to move there."""

    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


@api_message(ApiKey.ALTER_REPLICA_LOG_DIRS)
class AlterReplicaLogDirsRequest:
    """The directories, each with its partitions."""

    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


@struct
class AlterReplicaLogDirPartitionResult:
    """The outcome for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class AlterReplicaLogDirTopicResult:
    """The outcomes for one topic."""

    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


@api_message(ApiKey.ALTER_REPLICA_LOG_DIRS)
class AlterReplicaLogDirsResponse:
    """The outcomes by topic."""

    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
