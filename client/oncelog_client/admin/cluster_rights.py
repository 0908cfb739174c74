"""The rights of this client on the cluster, as a broker reports them (KIP-430)."""

from __future__ import annotations

from typing import Final

from oncelog_client.core.acl_bindings import AclOperation
from oncelog_client.errors import check
from oncelog_client.io.cluster import Cluster
from oncelog_protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_OF_MARKERS: Final = (AclOperation.ALTER, AclOperation.CLUSTER_ACTION)


async def may_write_markers(cluster: Cluster, timeout_ms: int) -> bool:
    """Return True if the client may abort transactions without their coordinators. To such a client
    a broker of oncelog reports every transactional id that it leaves out of a list."""

    async def attempt() -> int:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = await cluster.call_any(request, DescribeClusterResponse)
        check(response.error_code, response.error_message)
        return response.cluster_authorized_operations

    operations = await cluster.retry(attempt, timeout_ms)
    return any(operations & 1 << operation for operation in _OF_MARKERS)
