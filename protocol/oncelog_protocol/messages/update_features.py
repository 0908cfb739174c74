"""UpdateFeatures (key 57, versions 0 to 2): changes the finalized levels of features (KIP-584).

* v1: the type of the change replaces `allow_downgrade`; `validate_only` (KIP-778)
* v2: one error for all features (KIP-1022)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int8, int16, int32, string


@struct
class FeatureUpdateKey:
    """The new level of a feature, 0 to remove it. The type is 1 for an upgrade, 2 for a downgrade
    without loss, 3 for any downgrade."""

    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean(until=0)
    upgrade_type: int = int8(since=1, default=1)


@api_message(ApiKey.UPDATE_FEATURES)
class UpdateFeaturesRequest:
    """The changes. With `validate_only`, they are only checked."""

    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean(since=1, default=False)


@struct
class UpdatableFeatureResult:
    """The outcome for one feature."""

    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


@api_message(ApiKey.UPDATE_FEATURES)
class UpdateFeaturesResponse:
    """The error of the whole request, and up to v1 the outcome for each feature."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, until=1)
