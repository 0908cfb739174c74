"""The brokers that get a request for all brokers."""

from __future__ import annotations

from oncelog_client.errors import UnsupportedVersionError, check
from oncelog_client.io.cluster import Cluster
from oncelog_protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)


async def live_brokers(cluster: Cluster) -> list[int]:
    """Return the ids of the brokers that are alive, after a refresh of the metadata.

    For librdkafka, the Metadata response of oncelog still lists a broker for some seconds after its
    death. In this time, requests to all listed brokers would fail. Apache Kafka before 2.8 does not
    serve DescribeCluster, and its Metadata response lists only live brokers.
    """
    await cluster.refresh()
    try:
        response = await cluster.call_any(DescribeClusterRequest(), DescribeClusterResponse)
    except UnsupportedVersionError:
        return sorted(cluster.metadata.brokers)
    check(response.error_code, response.error_message)
    return sorted(row.broker_id for row in response.brokers)
