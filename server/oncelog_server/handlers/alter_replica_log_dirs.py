"""AlterReplicaLogDirs: move replicas to other data directories. A broker has one directory, so a
replica can only be moved to the directory where it is (KIP-113).

v1: the first version of Kafka 4
v2: flexible
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import Steps, when_large
from oncelog_server.topic_partition import TopicPartition

API = ApiKey.ALTER_REPLICA_LOG_DIRS

# The longest name of a folder. While Kafka moves a replica, the new folder has a name that is 40
# characters longer than that of the partition.
LONGEST_FOLDER: Final = 255
SUFFIX: Final = 40


def handle(
    services: BrokerServices, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse | Steps[AlterReplicaLogDirsResponse]:
    size = sum(len(topic.partitions) for row in request.dirs for topic in row.topics)
    return when_large(size, _steps(services, context, request))


def _steps(
    services: BrokerServices, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> Steps[AlterReplicaLogDirsResponse]:
    is_allowed = context.may(Operation.ALTER, CLUSTER)
    own_path = services.views.log_dir().path
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            found = topics.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic.name))
            for number in topic.partitions:
                code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                if is_allowed:
                    name = TopicPartition(topic.name, number)
                    code = _moved(services, name, is_own=directory.path == own_path)
                found.partitions.append(AlterReplicaLogDirPartitionResult(number, code))
                yield
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _moved(services: BrokerServices, name: TopicPartition, *, is_own: bool) -> ErrorCode:
    """Return the outcome for a partition, in the order of Kafka's checks. `is_own`: the directory
    is that of this broker."""
    if len(str(name)) + SUFFIX > LONGEST_FOLDER:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not is_own:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if services.partitions.offline_reason(name) is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if services.partitions.get(name) is not None:
        return ErrorCode.NONE
    if services.metadata.image.partition(*name) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.REPLICA_NOT_AVAILABLE
