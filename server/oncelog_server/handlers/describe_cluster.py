"""DescribeCluster: the brokers and the cluster's id (KIP-700).

v0: brokers, controller, cluster id
v1: the requested kind of endpoint (KIP-919)
v2: brokers that are fenced
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.members import endpoint_of
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.access import NOT_ASKED_FOR
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.DESCRIBE_CLUSTER

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Return the brokers of the metadata image, and with `include_fenced_brokers` those that have
    registered and are not alive."""
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an "
            "endpoint of type CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    operations = NOT_ASKED_FOR
    if request.include_cluster_authorized_operations:
        operations = 0
        if context.may(Operation.DESCRIBE, CLUSTER):
            operations = context.authorized_operations(CLUSTER)
    image = services.metadata.image
    brokers = []
    for broker in image.brokers.values():
        endpoint = broker.endpoint(context.listener_name)
        if endpoint is not None:
            row = DescribeClusterBroker(
                broker.id,
                endpoint.host,
                endpoint.port,
                broker.rack,
                software_version=broker.version,
            )
            brokers.append(row)
    for fenced in image.fenced.values() if request.include_fenced_brokers else ():
        endpoint = endpoint_of(fenced.endpoints, context.listener_name)
        if endpoint is not None:
            brokers.append(
                DescribeClusterBroker(
                    fenced.id, endpoint.host, endpoint.port, fenced.rack, is_fenced=True
                )
            )
    return DescribeClusterResponse(
        endpoint_type=request.endpoint_type,
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=brokers,
        cluster_authorized_operations=operations,
    )
