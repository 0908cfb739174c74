"""The levels of Apache Kafka's features, changed while it runs."""

from __future__ import annotations

from typing import Final

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.features import GROUP_VERSION
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from oncelog_protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.harness.waiting import wait_until

SHARE_VERSION: Final = "share.version"
# The features of the group protocols that oncelog does not have.
NEWER_GROUPS: Final = (GROUP_VERSION, SHARE_VERSION)
_UPGRADE, _SAFE_DOWNGRADE = 1, 2


def turn_newer_groups(wire: Wire, level: int) -> None:
    """Change the features of the newer group protocols to level 0 (off) or 1 (on). Return when the
    broker has this level."""
    kind = _UPGRADE if level else _SAFE_DOWNGRADE
    updates = [FeatureUpdateKey(name, level, upgrade_type=kind) for name in NEWER_GROUPS]
    response = wire.call(UpdateFeaturesRequest(feature_updates=updates), 1)
    assert response.error_code == ErrorCode.NONE, response

    def are_turned() -> bool:
        found = wire.call(ApiVersionsRequest("tests", "1"), 4).finalized_features
        levels = {feature.name: feature.max_version_level for feature in found}
        return all(levels.get(name, 0) == level for name in NEWER_GROUPS)

    wait_until(are_turned, f"{NEWER_GROUPS} have level {level}")
