"""DescribeConfigs (key 32), versions 1 to 4."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, boolean, int8, int16, int32, string


@struct
class DescribeConfigsResource:
    """Describe configs resource of DescribeConfigsRequest."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string, nullable_since=0)


@message(range(1, 5), flexible_since=4)
class DescribeConfigsRequest:
    """The request of DescribeConfigs, versions 1 to 4."""

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean(since=3)


@struct
class DescribeConfigsSynonym:
    """Describe configs synonym of DescribeConfigsResponse."""

    name: str = string()
    value: str | None = string(nullable_since=1)
    source: int = int8()


@struct
class DescribeConfigsResourceResult:
    """Describe configs resource result of DescribeConfigsResponse."""

    name: str = string()
    value: str | None = string(nullable_since=0)
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym)
    config_type: int = int8(since=3)
    documentation: str | None = string(since=3, nullable_since=3)


@struct
class DescribeConfigsResult:
    """Describe configs result of DescribeConfigsResponse."""

    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@message(range(1, 5), flexible_since=4)
class DescribeConfigsResponse:
    """The response of DescribeConfigs, versions 1 to 4."""

    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
