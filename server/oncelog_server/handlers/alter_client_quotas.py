"""AlterClientQuotas: set and remove quotas of clients (KIP-546).

v0: changes; with `validate_only`, the changes are only checked
v1: flexible
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
    EntityData,
    EntryData,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.quota_changes import QuotaAlteration
from oncelog_server.deferred import Deferred
from oncelog_server.quotas.entities import Entity, entity_of
from oncelog_server.refusal import Refused
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.security.resources import CLUSTER, Operation

API = ApiKey.ALTER_CLIENT_QUOTAS


def handle(
    services: BrokerServices, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse | Deferred[AlterClientQuotasResponse]:
    if not context.may(Operation.ALTER_CONFIGS, CLUSTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return AlterClientQuotasResponse(
            entries=[
                AlteredEntryData(code, "Cluster authorization failed.", entry.entity)
                for entry in request.entries
            ]
        )
    return services.spawn(_alter(services, context, request))


async def _alter(
    services: BrokerServices, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    alterations = [_alteration(entry) for entry in request.entries]
    outcomes: dict[Entity, Refused | None]
    try:
        outcomes = await services.metadata.users.alter_quotas(
            alterations, validate_only=request.validate_only
        )
    except Refused as failed:
        outcomes = dict.fromkeys((alteration.entity for alteration in alterations), failed)
    if not request.validate_only:
        changed = [found for found in alterations if outcomes.get(found.entity) is None]
        texts = [text for alteration in changed for text in _texts(alteration)]
        services.audit_trail.quotas_altered(context.session, texts)
    return AlterClientQuotasResponse(
        entries=[_altered(entity, refused) for entity, refused in outcomes.items()]
    )


def _alteration(entry: EntryData) -> QuotaAlteration:
    return QuotaAlteration(
        entity_of((part.entity_type, part.entity_name) for part in entry.entity),
        [(op.key, None if op.remove else op.value) for op in entry.ops],
    )


def _texts(alteration: QuotaAlteration) -> Iterator[str]:
    """Yield the changes of an entity as text: `user=alice producer_byte_rate=1024.0`."""
    entity = ",".join(f"{kind}={name or '<default>'}" for kind, name in alteration.entity)
    for key, value in alteration.changes:
        yield f"{entity} {key}={'removed' if value is None else value}"


def _altered(entity: Entity, refused: Refused | None) -> AlteredEntryData:
    parts = [EntityData(*part) for part in entity]
    if refused is None:
        return AlteredEntryData(ErrorCode.NONE, None, parts)
    return AlteredEntryData(refused.code, refused.message, parts)
