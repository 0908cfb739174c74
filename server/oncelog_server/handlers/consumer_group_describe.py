"""ConsumerGroupDescribe v0-1: oncelog has no groups of the consumer protocol (KIP-848).

As Kafka does while the feature group.version is off, the broker announces the API, and refuses each
group before it looks at rights. Java's admin client then sends DescribeGroups.
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.requests.request_context import RequestContext

API = ApiKey.CONSUMER_GROUP_DESCRIBE


def handle(
    services: BrokerServices, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    code = ErrorCode.UNSUPPORTED_VERSION
    return ConsumerGroupDescribeResponse(
        groups=[DescribedGroup(error_code=code, group_id=name) for name in request.group_ids]
    )
