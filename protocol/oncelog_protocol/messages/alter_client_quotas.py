"""AlterClientQuotas (key 49, versions 0 to 1): sets and removes quotas of clients (KIP-546).

* v1: flexible
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, float64, int16, int32, string


@struct
class EntityData:
    """One part of an entity. A null name means the default entity of this type."""

    entity_type: str = string()
    entity_name: str | None = string(nullable=True, default=None)


@struct
class OpData:
    """One quota to set or remove."""

    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@struct
class EntryData:
    """The changes of one entity."""

    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


@api_message(ApiKey.ALTER_CLIENT_QUOTAS)
class AlterClientQuotasRequest:
    """Changes of quotas. `validate_only`: only check them."""

    entries: list[EntryData] = array(EntryData)
    validate_only: bool = boolean()


@struct
class AlteredEntryData:
    """The outcome for one entity."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    entity: list[EntityData] = array(EntityData)


@api_message(ApiKey.ALTER_CLIENT_QUOTAS)
class AlterClientQuotasResponse:
    """The outcomes, in the order of the request."""

    throttle_time_ms: int = int32()
    entries: list[AlteredEntryData] = array(AlteredEntryData)
