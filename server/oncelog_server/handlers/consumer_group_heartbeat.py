"""ConsumerGroupHeartbeat v0-1: oncelog does not have the consumer protocol (KIP-848).

As Kafka does while the feature group.version is off, the broker announces the API, and refuses each
request before it looks at rights. If ApiVersions did not list the API, a consumer of librdkafka
would wait forever, without an error.
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.requests.request_context import RequestContext

API = ApiKey.CONSUMER_GROUP_HEARTBEAT


def handle(
    services: BrokerServices, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
