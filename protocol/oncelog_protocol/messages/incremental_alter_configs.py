"""IncrementalAlterConfigs (key 44), versions 0 to 1."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, boolean, int8, int16, int32, string


@struct
class AlterableConfig:
    """Alterable config of IncrementalAlterConfigsRequest."""

    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable_since=0)


@struct
class AlterConfigsResource:
    """Alter configs resource of IncrementalAlterConfigsRequest."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(range(0, 2), flexible_since=1)
class IncrementalAlterConfigsRequest:
    """The request of IncrementalAlterConfigs, versions 0 to 1."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse:
    """Alter configs resource response of IncrementalAlterConfigsResponse."""

    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    resource_type: int = int8()
    resource_name: str = string()


@message(range(0, 2), flexible_since=1)
class IncrementalAlterConfigsResponse:
    """The response of IncrementalAlterConfigs, versions 0 to 1."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
