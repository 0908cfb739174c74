"""The brokers of the cluster, and the contents of their data directories."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from oncelog_client.admin.broker_descriptions import (
    BrokerCondition,
    ClusterDescription,
    EligibleReplicas,
    LogDirDescription,
    ReplicaInfo,
)
from oncelog_client.admin.live_brokers import live_brokers
from oncelog_client.errors import KafkaError, check, error_for
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.io.cluster import Cluster
from oncelog_client.io.connection import SOFTWARE_NAME
from oncelog_client.values import Node, TopicPartition
from oncelog_protocol import __version__
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncelog_protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from oncelog_protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from oncelog_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    RequestCursor,
    TopicRequest,
)
from oncelog_protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


async def find_broker(cluster: Cluster, node_id: int, timeout_ms: float) -> None:
    """Raise KafkaError (BROKER_NOT_AVAILABLE) if fresh metadata do not have the id. The error is
    not a RetriableError, because the user has chosen the id, and retries would not help."""
    if node_id not in cluster.metadata.brokers:
        await cluster.retry(cluster.refresh, timeout_ms)
    if node_id not in cluster.metadata.brokers:
        known = ", ".join(map(str, sorted(cluster.metadata.brokers)))
        raise KafkaError(
            f"there is no broker {node_id}, only {known}", ErrorCode.BROKER_NOT_AVAILABLE
        )


async def describe_cluster(
    cluster: Cluster, timeout_ms: int, *, include_fenced_brokers: bool = False
) -> ClusterDescription:
    async def attempt() -> ClusterDescription:
        request = DescribeClusterRequest(include_fenced_brokers=include_fenced_brokers)
        response = await cluster.call_any(request, DescribeClusterResponse)
        check(response.error_code, response.error_message)
        rows = sorted(response.brokers, key=lambda row: row.broker_id)
        nodes = {row.broker_id: _node(row) for row in rows if not row.is_fenced}
        return ClusterDescription(
            response.cluster_id,
            nodes.get(response.controller_id),
            tuple(nodes.values()),
            tuple(_node(row) for row in rows if row.is_fenced),
            {row.broker_id: row.software_version for row in rows if row.software_version},
        )

    return await cluster.retry(attempt, timeout_ms)


def _node(row: DescribeClusterBroker) -> Node:
    return Node(row.broker_id, row.host, row.port, row.rack)


async def describe_conditions(
    cluster: Cluster, broker_ids: Iterable[int], timeout_ms: int
) -> dict[int, BrokerCondition]:
    asked = list(broker_ids)

    async def attempt() -> dict[int, BrokerCondition]:
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=__version__
        )
        responses = await asyncio.gather(
            *(cluster.call(node_id, request, ApiVersionsResponse) for node_id in asked)
        )
        return dict(zip(asked, map(_condition, responses), strict=True))

    return await cluster.retry(attempt, timeout_ms)


def _condition(response: ApiVersionsResponse) -> BrokerCondition:
    check(response.error_code)
    return BrokerCondition(
        response.store_silence_ms,
        response.is_suspended,
        {row.name: row.max_version for row in response.supported_features},
        {row.name: row.max_version_level for row in response.finalized_features},
    )


async def describe_eligible_replicas(
    cluster: Cluster, partitions: Iterable[TopicPartition], timeout_ms: int
) -> dict[TopicPartition, EligibleReplicas]:
    wanted = set(partitions)
    names = sorted({place.topic for place in wanted})
    found: dict[TopicPartition, EligibleReplicas] = {}
    cursor: RequestCursor | None = None
    deadline_ms = monotonic_ms() + timeout_ms
    while names:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names], cursor=cursor
        )

        async def attempt(
            request: DescribeTopicPartitionsRequest = request,
        ) -> DescribeTopicPartitionsResponse:
            return await cluster.call_any(request, DescribeTopicPartitionsResponse)

        response = await cluster.retry(attempt, deadline_ms - monotonic_ms())
        for topic in response.topics:
            for row in topic.partitions:
                place = TopicPartition(topic.name or "", row.partition_index)
                if place in wanted:
                    found[place] = EligibleReplicas(
                        tuple(row.eligible_leader_replicas or ()), tuple(row.last_known_elr or ())
                    )
        following = response.next_cursor
        if following is None:
            break
        cursor = RequestCursor(
            topic_name=following.topic_name, partition_index=following.partition_index
        )
    return found


async def unregister_broker(cluster: Cluster, broker_id: int, timeout_ms: int) -> None:
    async def attempt() -> None:
        request = UnregisterBrokerRequest(broker_id)
        response = await cluster.call_any(request, UnregisterBrokerResponse)
        check(response.error_code, response.error_message)

    await cluster.retry(attempt, timeout_ms)


async def describe_log_dirs(
    cluster: Cluster, broker_ids: Iterable[int] | None, timeout_ms: int
) -> dict[int, list[LogDirDescription]]:
    asked = None if broker_ids is None else list(broker_ids)
    deadline_ms = monotonic_ms() + timeout_ms
    for node_id in asked or ():
        await find_broker(cluster, node_id, deadline_ms - monotonic_ms())

    async def attempt() -> dict[int, list[LogDirDescription]]:
        nodes = await live_brokers(cluster) if asked is None else asked
        responses = await asyncio.gather(
            *(
                cluster.call(node_id, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
                for node_id in nodes
            )
        )
        return {
            node_id: _directories(response)
            for node_id, response in zip(nodes, responses, strict=True)
        }

    return await cluster.retry(attempt, deadline_ms - monotonic_ms())


def _directories(response: DescribeLogDirsResponse) -> list[LogDirDescription]:
    check(response.error_code)
    found = []
    for row in response.results:
        replicas = {
            TopicPartition(topic.name, partition.partition_index): ReplicaInfo(
                partition.partition_size,
                partition.offset_lag,
                partition.is_future_key,
                {late.broker_id: late.out_of_sync_ms for late in partition.out_of_sync},
            )
            for topic in row.topics
            for partition in topic.partitions
        }
        error = error_for(row.error_code, row.log_dir) if row.error_code else None
        found.append(
            LogDirDescription(row.log_dir, row.total_bytes, row.usable_bytes, replicas, error)
        )
    return found
