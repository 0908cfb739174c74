"""DescribeClientQuotas (key 48, versions 0 to 1): lists the quotas of clients (KIP-546).

* v1: flexible
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, float64, int8, int16, int32, string


@struct
class ComponentData:
    """A type of entity with its match type: 0 an exact name, 1 the default, 2 any."""

    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable=True, default=None)


@api_message(ApiKey.DESCRIBE_CLIENT_QUOTAS)
class DescribeClientQuotasRequest:
    """The filter of entities. `strict` excludes entities that have other components too."""

    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


@struct
class EntityData:
    """One part of an entity: a null name is the default."""

    entity_type: str = string()
    entity_name: str | None = string(nullable=True, default=None)


@struct
class ValueData:
    """One quota."""

    key: str = string()
    value: float = float64()


@struct
class EntryData:
    """The quotas of one entity."""

    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


@api_message(ApiKey.DESCRIBE_CLIENT_QUOTAS)
class DescribeClientQuotasResponse:
    """The matching entities; null after an error."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    entries: list[EntryData] | None = array(EntryData, nullable=True, default=None)
