"""Quotas of clients: describe, set, remove (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from oncelog_client.admin.quota_descriptions import (
    DEFAULT_NAME,
    AnyName,
    ClientQuotaEntity,
    ClientQuotaFilter,
    Quotas,
)
from oncelog_client.errors import check
from oncelog_client.io.cluster import Cluster
from oncelog_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from oncelog_protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

# The types of entities in requests, in the order of the fields of ClientQuotaEntity.
_TYPES: Final = ("user", "client-id", "ip")
# Match types.
_EXACT, _DEFAULT, _ANY = 0, 1, 2


async def describe_client_quotas(
    cluster: Cluster, chosen: ClientQuotaFilter, timeout_ms: int
) -> dict[ClientQuotaEntity, Quotas]:
    request = DescribeClientQuotasRequest(list(_components(chosen)), chosen.is_strict)

    async def attempt() -> DescribeClientQuotasResponse:
        response = await cluster.call_any(request, DescribeClientQuotasResponse)
        check(response.error_code, response.error_message or "")
        return response

    response = await cluster.retry(attempt, timeout_ms)
    found: dict[ClientQuotaEntity, Quotas] = {}
    for entry in response.entries or ():
        names = {
            part.entity_type: DEFAULT_NAME if part.entity_name is None else part.entity_name
            for part in entry.entity
        }
        entity = ClientQuotaEntity(*map(names.get, _TYPES))
        found[entity] = {row.key: row.value for row in entry.values}
    return found


def _components(chosen: ClientQuotaFilter) -> Iterator[ComponentData]:
    for type_, name in zip(_TYPES, chosen[: len(_TYPES)], strict=True):
        if isinstance(name, AnyName):
            yield ComponentData(type_, _ANY)
        elif name == DEFAULT_NAME:
            yield ComponentData(type_, _DEFAULT)
        elif name is not None:
            yield ComponentData(type_, _EXACT, str(name))


async def alter_client_quotas(
    cluster: Cluster,
    changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
    timeout_ms: int,
    *,
    validate_only: bool,
) -> None:
    entries = [
        EntryData(
            [
                EntityData(type_, name or None)
                for type_, name in zip(_TYPES, entity, strict=True)
                if name is not None
            ],
            [OpData(key, value or 0.0, value is None) for key, value in values.items()],
        )
        for entity, values in changes.items()
    ]
    request = AlterClientQuotasRequest(entries, validate_only)

    async def attempt() -> None:
        response = await cluster.call_controller(request, AlterClientQuotasResponse)
        for row in response.entries:
            check(row.error_code, row.error_message or "")

    await cluster.retry(attempt, timeout_ms)
