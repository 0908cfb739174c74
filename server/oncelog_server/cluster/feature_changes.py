"""Changes of the finalized levels of features. Checks and messages are those of Kafka's
FeatureControlManager (KIP-584, KIP-778)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.records import FeaturesRecord
from oncelog_server.cluster.store import Put, Write, Written
from oncelog_server.refusal import Refused

Ranges = Mapping[str, tuple[int, int]]


class UpgradeType(IntEnum):
    """Kafka's FeatureUpdate.UpgradeType. Any other number is refused."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(msgspec.Struct, frozen=True):
    """The new level of a feature, 0 to remove it. `upgrade_type` is a number of UpgradeType."""

    feature: str
    level: int
    upgrade_type: int


def update_features(
    image: ClusterImage, broker_id: int, supported: Ranges, updates: Sequence[FeatureUpdate]
) -> list[Write]:
    """Return the writes that make all updates, none if no level changes. If a feature has several
    updates, the last one counts.

    `supported` are the levels of this broker, `broker_id`. Each live broker must support a new
    level. Raises Refused with INVALID_UPDATE_VERSION at the first update that is not allowed.
    """
    levels = dict(image.features)
    for update in updates:
        reason = _refusal(image, broker_id, supported, update)
        if reason is not None:
            raise Refused(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.level} for feature {update.feature}. {reason}",
            )
        levels[update.feature] = update.level
    if levels == image.features:
        return []
    put = Put(records.FEATURES, records.encode(FeaturesRecord(levels)))
    return [Write((Written(records.FEATURES, max(image.features_epoch, 0)),), (put,))]


def _refusal(
    image: ClusterImage, broker_id: int, supported: Ranges, update: FeatureUpdate
) -> str | None:
    """Return the reason why an update is not allowed, None if it is allowed."""
    name, level = update.feature, update.level
    if update.upgrade_type not in UpgradeType.__members__.values():
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if level > 0:
        brokers = {f"Broker {id}": broker.features for id, broker in image.brokers.items()}
        brokers.pop(f"Broker {broker_id}", None)
        for peer, ranges in {f"Local controller {broker_id}": supported, **brokers}.items():
            found = ranges.get(name)
            if found is None:
                return f"{peer} does not support this feature."
            if not found[0] <= level <= found[1]:
                return f"{peer} only supports versions {found[0]}-{found[1]}"
    elif name not in supported:
        return f"Feature {name} not found."
    if level < image.features.get(name, 0) and update.upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    return None
