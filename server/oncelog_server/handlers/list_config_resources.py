"""ListConfigResources: the resources with settings (KIP-714, KIP-1142).

v0: client metrics, always an empty list
v1: all types
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.handlers import config_resources
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.LIST_CONFIG_RESOURCES

TOPIC: Final = config_resources.ConfigResource.TOPIC
BROKER: Final = config_resources.ConfigResource.BROKER
# A client may also request a type without any resource on this broker.
TYPES: Final = {TOPIC, BROKER, *config_resources.NOT_SERVED}


def handle(
    services: BrokerServices, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    if not context.may(Operation.DESCRIBE_CONFIGS, CLUSTER):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if context.api_version == 0:
        return ListConfigResourcesResponse()
    wanted = set(request.resource_types) or TYPES
    if not wanted <= TYPES:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    found = []
    if BROKER in wanted:
        found += [ConfigResource(str(broker), BROKER) for broker in services.metadata.image.brokers]
    if TOPIC in wanted:
        found += [ConfigResource(name, TOPIC) for name in services.metadata.image.topics]
    return ListConfigResourcesResponse(config_resources=found)
