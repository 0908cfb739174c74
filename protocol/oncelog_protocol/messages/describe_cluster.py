"""DescribeCluster (key 60, versions 0 to 2): names the brokers of the cluster.

* v1: endpoints of brokers or controllers (KIP-919)
* v2: fenced brokers (KIP-1073)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.features import OWN_TAGS
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int8, int16, int32, string


@api_message(ApiKey.DESCRIBE_CLUSTER)
class DescribeClusterRequest:
    """The choice of what the response contains (KIP-700)."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(since=1, default=1)
    include_fenced_brokers: bool = boolean(since=2)


@struct
class DescribeClusterBroker:
    """A broker and its address."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=True, default=None)
    is_fenced: bool = boolean(since=2)
    software_version: str = string(tag=OWN_TAGS["software_version"])


@api_message(ApiKey.DESCRIBE_CLUSTER)
class DescribeClusterResponse:
    """The brokers, the controller, the cluster id."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    endpoint_type: int = int8(since=1, default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-2147483648)
