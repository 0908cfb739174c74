"""DescribeConfigs (key 32, versions 1 to 4): returns the settings of topics and brokers.

* v1: synonyms and sources (KIP-226)
* v3: types and documentation (KIP-569)
* v4: flexible
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int8, int16, int32, string


@struct
class DescribeConfigsResource:
    """A topic (2) or broker (4) with the requested settings; null requests all."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string, nullable=True)


@api_message(ApiKey.DESCRIBE_CONFIGS)
class DescribeConfigsRequest:
    """The requested resources."""

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean(since=3)


@struct
class DescribeConfigsSynonym:
    """Another source of the value."""

    name: str = string()
    value: str | None = string(nullable=True)
    source: int = int8()


@struct
class DescribeConfigsResourceResult:
    """One setting."""

    name: str = string()
    value: str | None = string(nullable=True)
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym)
    config_type: int = int8(since=3)
    documentation: str | None = string(since=3, nullable=True)


@struct
class DescribeConfigsResult:
    """The settings of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@api_message(ApiKey.DESCRIBE_CONFIGS)
class DescribeConfigsResponse:
    """The settings of each resource."""

    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
