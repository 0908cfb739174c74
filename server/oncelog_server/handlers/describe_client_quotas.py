"""DescribeClientQuotas: quotas of clients (KIP-546).

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
    EntityData,
    EntryData,
    ValueData,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.quota_changes import QuotaFilter, matching_quotas
from oncelog_server.quotas.entities import ENTITY_TYPES, IP
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation
from oncelog_server.slices import Steps, when_large

API = ApiKey.DESCRIBE_CLIENT_QUOTAS

# Match types.
EXACT: Final = 0
DEFAULT: Final = 1
SPECIFIED: Final = 2
# The match types for which a filter has no match string, and the names of these types in Kafka.
NAMELESS: Final = {DEFAULT: "DEFAULT", SPECIFIED: "SPECIFIED"}


def handle(
    services: BrokerServices, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse | Steps[DescribeClientQuotasResponse]:
    if not context.may(Operation.DESCRIBE_CONFIGS, CLUSTER):
        return DescribeClientQuotasResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, entries=None
        )
    try:
        chosen = quota_filter(request.components, is_strict=request.strict)
    except Refused as refused:
        return DescribeClientQuotasResponse(
            error_code=refused.code, error_message=refused.message, entries=None
        )
    return when_large(len(services.metadata.image.quotas), _described(services, chosen))


def _described(
    services: BrokerServices, chosen: QuotaFilter
) -> Steps[DescribeClientQuotasResponse]:
    found = yield from matching_quotas(services.metadata.image, chosen)
    entries = []
    for entity, limits in found:
        yield
        values = [ValueData(name, limit) for name, limit in limits.items()]
        entries.append(EntryData([EntityData(*part) for part in entity], values))
    return DescribeClientQuotasResponse(error_message="", entries=entries)


def quota_filter(components: Sequence[ComponentData], *, is_strict: bool) -> QuotaFilter:
    """Return the filter of a request. Raises Refused, with Kafka's message, for a filter that
    Kafka's ClientQuotasImage refuses."""
    exact: dict[str, str | None] = {}
    any_name: set[str] = set()
    for component in components:
        type_ = component.entity_type
        if not type_:
            raise Refused(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if type_ in exact or type_ in any_name:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"Entity type {type_} cannot appear more than once in the filter.",
            )
        if type_ not in ENTITY_TYPES:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {type_}")
        _check_match(component)
        if component.match_type == SPECIFIED:
            any_name.add(type_)
        else:
            exact[type_] = component.match
    types = exact.keys() | any_name
    if IP in types and len(types) > 1:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )
    return QuotaFilter(exact, frozenset(any_name), is_strict)


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
