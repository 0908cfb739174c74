"""ListConfigResources (key 74, versions 0 to 1): lists resources with settings (KIP-714,
KIP-1142).

* v1: all types of resources; v0 has client metrics only
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int8, int16, int32, string


@api_message(ApiKey.LIST_CONFIG_RESOURCES)
class ListConfigResourcesRequest:
    """The requested types; none requests all."""

    resource_types: list[int] = array(int8, since=1)


@struct
class ConfigResource:
    """One resource."""

    resource_name: str = string()
    resource_type: int = int8(since=1, default=16)


@api_message(ApiKey.LIST_CONFIG_RESOURCES)
class ListConfigResourcesResponse:
    """The resources of the requested types."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
