"""DescribeLogDirs: the size of partitions on this broker's disk (KIP-113).

v1: partitions of the data directory
v2: flexible
v3: an error for the whole response
v4: size and free space of the disk (KIP-827)
v5: whether the directory takes no new partitions
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.operating_system.disk_space import disk_space
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import Steps, when_large
from oncelog_server.topic_partition import TopicPartition

API = ApiKey.DESCRIBE_LOG_DIRS


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse | Steps[DescribeLogDirsResponse]:
    return when_large(len(services.partitions), _steps(services, context, request))


def _steps(
    services: BrokerServices, context: RequestContext, request: DescribeLogDirsRequest
) -> Steps[DescribeLogDirsResponse]:
    """Return the partitions on this broker. It leads them all, so their lag is 0. Others are left
    out."""
    if not context.may(Operation.DESCRIBE, CLUSTER):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.topics is None:
        found = list(services.partitions)
    else:
        keys = {
            TopicPartition(topic.topic, number)
            for topic in request.topics
            for number in topic.partitions
        }
        found = [
            replica for key in sorted(keys) if (replica := services.partitions.get(key)) is not None
        ]
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in found:
        if partition.offline is not None:
            continue
        name, number = partition.topic_partition
        topic = topics.setdefault(name, DescribeLogDirsTopic(name))
        topic.partitions.append(DescribeLogDirsPartition(number, partition.size_bytes))
        yield
    space = disk_space(services.settings.data_directory)
    directory = DescribeLogDirsResult(
        log_dir=space.path,
        topics=list(topics.values()),
        total_bytes=space.total_bytes,
        usable_bytes=space.usable_bytes,
    )
    return DescribeLogDirsResponse(results=[directory])
