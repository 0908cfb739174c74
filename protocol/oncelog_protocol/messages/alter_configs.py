"""AlterConfigs (key 33), versions 0 to 2."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, boolean, int8, int16, int32, string


@struct
class AlterableConfig:
    """Alterable config of AlterConfigsRequest."""

    name: str = string()
    value: str | None = string(nullable_since=0)


@struct
class AlterConfigsResource:
    """Alter configs resource of AlterConfigsRequest."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(range(0, 3), flexible_since=2)
class AlterConfigsRequest:
    """The request of AlterConfigs, versions 0 to 2."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse:
    """Alter configs resource response of AlterConfigsResponse."""

    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    resource_type: int = int8()
    resource_name: str = string()


@message(range(0, 3), flexible_since=2)
class AlterConfigsResponse:
    """The response of AlterConfigs, versions 0 to 2."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
