"""ApiVersions (key 18), versions 0 to 5."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, boolean, int16, int32, int64, string


@message(range(0, 6), flexible_since=3)
class ApiVersionsRequest:
    """The request of ApiVersions, versions 0 to 5."""

    client_software_name: str = string(since=3)
    client_software_version: str = string(since=3)
    cluster_id: str | None = string(since=5, nullable_since=5, default=None)
    node_id: int = int32(since=5, default=-1)


@struct
class ApiVersion:
    """Api version of ApiVersionsResponse."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@struct
class SupportedFeatureKey:
    """Supported feature key of ApiVersionsResponse."""

    name: str = string(since=3)
    min_version: int = int16(since=3)
    max_version: int = int16(since=3)


@struct
class FinalizedFeatureKey:
    """Finalized feature key of ApiVersionsResponse."""

    name: str = string(since=3)
    max_version_level: int = int16(since=3)
    min_version_level: int = int16(since=3)


@message(range(0, 6), flexible_since=3)
class ApiVersionsResponse:
    """The response of ApiVersions, versions 0 to 5."""

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(since=1)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, since=3, tag=0)
    finalized_features_epoch: int = int64(since=3, tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, since=3, tag=2)
    zk_migration_ready: bool = boolean(since=3, tag=3)
