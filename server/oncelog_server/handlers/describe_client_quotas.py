"""DescribeClientQuotas: quotas of clients (KIP-546). This broker has none.

v0: the quotas of all entities, or of those that match the filter
v1: flexible
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.DESCRIBE_CLIENT_QUOTAS

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = frozenset({USER, CLIENT_ID, IP})
EXACT: Final = 0
# The match types for which a filter has no match string, and the names of these types in Kafka.
NAMELESS: Final = {1: "DEFAULT", 2: "SPECIFIED"}


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    if not context.may(Operation.DESCRIBE_CONFIGS, CLUSTER):
        return DescribeClientQuotasResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, entries=None
        )
    try:
        check_filter(request.components)
    except Refused as refused:
        return DescribeClientQuotasResponse(
            error_code=refused.code, error_message=refused.message, entries=None
        )
    return DescribeClientQuotasResponse(error_message="", entries=[])


def check_filter(components: Sequence[ComponentData]) -> None:
    """Raise Refused for a filter that Kafka's ClientQuotasImage refuses."""
    seen: set[str] = set()
    for component in components:
        if not component.entity_type:
            raise Refused(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if component.entity_type in seen:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"Entity type {component.entity_type} cannot appear more than once in the filter.",
            )
        if component.entity_type not in ENTITY_TYPES:
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {component.entity_type}"
            )
        seen.add(component.entity_type)
        _check_match(component)
    if IP in seen and len(seen) > 1:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )


def _check_match(data: ComponentData) -> None:
    if data.match_type == EXACT:
        if data.match is None:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                "Request specified MATCH_TYPE_EXACT, but set match string to null.",
            )
        return
    name = NAMELESS.get(data.match_type)
    if name is None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown match type {data.match_type}")
    if data.match is not None:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Request specified MATCH_TYPE_{name}, but also specified a match string.",
        )
