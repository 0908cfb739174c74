"""AlterConfigs (key 33, versions 0 to 2): replaces all settings of topics and brokers.

* v2: flexible
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int8, int16, int32, string


@struct
class AlterableConfig:
    """One setting; null resets it to the default."""

    name: str = string()
    value: str | None = string(nullable=True)


@struct
class AlterConfigsResource:
    """All settings of one resource."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@api_message(ApiKey.ALTER_CONFIGS)
class AlterConfigsRequest:
    """Settings that replace all earlier settings of the resource (KIP-133)."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse:
    """The outcome for one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    resource_type: int = int8()
    resource_name: str = string()


@api_message(ApiKey.ALTER_CONFIGS)
class AlterConfigsResponse:
    """The outcome for each resource."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
