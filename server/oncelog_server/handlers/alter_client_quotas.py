"""AlterClientQuotas: set and remove quotas of clients (KIP-546). Quotas are not enforced yet, so
the broker refuses to set them, because users would rely on them.

v0: changes; with `validate_only`, the changes are only checked
v1: flexible
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
    EntryData,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.handlers.describe_client_quotas import ENTITY_TYPES
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.ALTER_CLIENT_QUOTAS

# Quotas that must be whole numbers. The other quotas in KEYS may have a fraction.
WHOLE: Final = frozenset({"producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"})
KEYS: Final = WHOLE | {"request_percentage", "controller_mutation_rate"}

Entity = tuple[tuple[str, str | None], ...]


def handle(
    services: BrokerServices, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    allowed = context.may(Operation.ALTER_CONFIGS, CLUSTER)
    times = Counter(map(_entity, request.entries))
    results = []
    for entry in request.entries:
        code, message = ErrorCode.NONE, None
        try:
            if not allowed:
                raise Refused(
                    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
                )
            _check(entry, times[_entity(entry)])
        except Refused as refused:
            code, message = refused.code, refused.message
        results.append(AlteredEntryData(code, message, entry.entity))
    return AlterClientQuotasResponse(entries=results)


def _entity(entry: EntryData) -> Entity:
    return tuple((part.entity_type, part.entity_name) for part in entry.entity)


def _check(entry: EntryData, times: int) -> None:
    """Raise Refused, with Kafka's message, if Kafka refuses the entry. Also raise Refused if the
    entry sets a quota. Removing a quota that is not set succeeds. `times`: the number of entries
    of the request with the same entity."""
    if not entry.entity:
        raise Refused(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    for part in entry.entity:
        if part.entity_type not in ENTITY_TYPES:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"Unhandled client quota entity type: {part.entity_type}",
            )
        if part.entity_name == "":
            raise Refused(ErrorCode.INVALID_REQUEST, f"Empty {part.entity_type} not supported")
    if times > 1:
        shown = ", ".join(f"{part.entity_type}={part.entity_name}" for part in entry.entity)
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Ignoring duplicate entity ClientQuotaEntity(entries={{{shown}}})",
        )
    for op in entry.ops:
        if op.key not in KEYS:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {op.key}")
        if op.remove:
            continue
        if not op.value > 0:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Quota {op.key} must be greater than 0")
        if op.key in WHOLE and not op.value.is_integer():
            raise Refused(ErrorCode.INVALID_REQUEST, f"{op.key} cannot be a fractional value.")
        raise Refused(
            ErrorCode.UNSUPPORTED_VERSION,
            "This broker does not enforce quotas of clients: none can be set",
        )
