"""ShareGroupHeartbeat v1: oncelog does not have share groups (KIP-932).

As Kafka does while the feature share.version is off, the broker announces the API, and refuses each
request before it looks at rights. If ApiVersions did not list the API, a share consumer of
librdkafka would wait forever, without an error.
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.requests.request_context import RequestContext

API = ApiKey.SHARE_GROUP_HEARTBEAT


def handle(
    services: BrokerServices, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
