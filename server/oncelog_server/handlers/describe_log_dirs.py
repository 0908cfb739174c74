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
    OutOfSyncReplica,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import Steps, when_large
from oncelog_server.topic_partition import TopicPartition

API = ApiKey.DESCRIBE_LOG_DIRS


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse | Steps[DescribeLogDirsResponse]:
    return when_large(services.views.partitions.count(), _steps(services, context, request))


def _steps(
    services: BrokerServices, context: RequestContext, request: DescribeLogDirsRequest
) -> Steps[DescribeLogDirsResponse]:
    """Return the requested partitions that are on this broker. The lag of a follower is the number
    of committed records that it does not have yet, -1 before the leader's first response."""
    if not context.may(Operation.DESCRIBE, CLUSTER):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted: list[TopicPartition] | None = None
    if request.topics is not None:
        wanted = sorted(
            {
                TopicPartition(topic.topic, number)
                for topic in request.topics
                for number in topic.partitions
            }
        )
    topics: dict[str, DescribeLogDirsTopic] = {}
    monotonic_ms = services.clock.monotonic_ms
    for replica in services.views.partitions.replicas(wanted, monotonic_ms):
        name, number = replica.partition
        topic = topics.setdefault(name, DescribeLogDirsTopic(name))
        topic.partitions.append(
            DescribeLogDirsPartition(
                number,
                replica.size_bytes,
                services.follower_lag(replica.partition),
                out_of_sync=[
                    OutOfSyncReplica(broker_id, late_ms)
                    for broker_id, late_ms in replica.out_of_sync_ms.items()
                ],
            )
        )
        yield
    log_dir = services.views.log_dir()
    directory = DescribeLogDirsResult(
        log_dir=log_dir.path,
        topics=list(topics.values()),
        total_bytes=log_dir.total_bytes,
        usable_bytes=log_dir.usable_bytes,
    )
    return DescribeLogDirsResponse(results=[directory])
