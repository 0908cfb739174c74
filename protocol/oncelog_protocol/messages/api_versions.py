"""ApiVersions (key 18, versions 0 to 5): the APIs, versions and features that a broker speaks.

* v1: throttle time (KIP-124)
* v3: flexible; name of the client (KIP-511), features (KIP-584)
* v4: features may start at version 0 (KIP-1022)
* v5: the cluster and node that the client wants to reach
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.features import OWN_TAGS
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int16, int32, int64, string


@api_message(ApiKey.API_VERSIONS)
class ApiVersionsRequest:
    """The client's name and version."""

    client_software_name: str = string(since=3)
    client_software_version: str = string(since=3)
    cluster_id: str | None = string(since=5, nullable=True, default=None)
    node_id: int = int32(since=5, default=-1)


@struct
class ApiVersion:
    """The versions of one API."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@struct
class SupportedFeatureKey:
    """The supported versions of one feature."""

    name: str = string(since=3)
    min_version: int = int16(since=3)
    max_version: int = int16(since=3)


@struct
class FinalizedFeatureKey:
    """The finalized version of one feature."""

    name: str = string(since=3)
    max_version_level: int = int16(since=3)
    min_version_level: int = int16(since=3)


@api_message(ApiKey.API_VERSIONS)
class ApiVersionsResponse:
    """APIs and features. A response with UNSUPPORTED_VERSION always has version 0."""

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(since=1)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, since=3, tag=0)
    finalized_features_epoch: int = int64(since=3, tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, since=3, tag=2)
    zk_migration_ready: bool = boolean(since=3, tag=3)
    store_silence_ms: int = int64(since=3, tag=OWN_TAGS["store_silence_ms"])
    is_suspended: bool = boolean(since=3, tag=OWN_TAGS["is_suspended"])
