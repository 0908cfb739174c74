"""Changes of the levels of features: Kafka's checks and messages, and the image that a change leads
to (KIP-584)."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.feature_changes import FeatureUpdate, UpgradeType, update_features
from oncelog_server.cluster.store import Put, Write
from oncelog_server.refusal import Refused
from tests.server.cluster.clusters import Cluster

UP, SAFE, UNSAFE = UpgradeType
FEATURE = "transaction.version"
SUPPORTED = {FEATURE: (0, 2)}
ALL_FAIL = "The update failed for all features since the following feature had an error"
DOWNGRADE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe "
    "or unsafe downgrade."
)


def cluster_of(**others: dict[str, tuple[int, int]]) -> Cluster:
    """Return a cluster of broker 1, and of brokers 2, 3 and so on with these features."""
    cluster = Cluster(brokers=range(1, 2 + len(others)))
    for broker_id, features in enumerate(others.values(), 2):
        entry = cluster.entries[records.broker_key(broker_id)]
        record = records.decode(records.BrokerRecord, entry.value)
        changed = records.BrokerRecord(record.incarnation, record.endpoints, features=features)
        put = Put(records.broker_key(broker_id), records.encode(changed), record.lease_id)
        cluster.apply([Write((), (put,))])
    return cluster


def updated(cluster: Cluster, *updates: tuple[str, int, int]) -> str | None:
    """Make the updates. Return the reason of the refusal, None for success."""
    found = [FeatureUpdate(*update) for update in updates]
    try:
        writes = update_features(cluster.image, 1, SUPPORTED, found)
    except Refused as refused:
        prefix, _, reason = refused.message.partition(": Invalid update version ")
        if refused.code is ErrorCode.INVALID_UPDATE_VERSION and prefix == ALL_FAIL:
            return reason.partition(". ")[2]
        raise
    assert cluster.apply(writes)
    return None


def test_levels_are_raised_lowered_and_kept() -> None:
    cluster = cluster_of()
    assert updated(cluster, (FEATURE, 2, UP)) is None
    assert cluster.image.features == {FEATURE: 2}
    epoch = cluster.image.features_epoch
    assert updated(cluster, (FEATURE, 2, UP)) is None
    assert cluster.image.features_epoch == epoch
    assert updated(cluster, (FEATURE, 1, UP)) == DOWNGRADE
    assert updated(cluster, (FEATURE, 1, SAFE)) is None
    assert updated(cluster, (FEATURE, 0, UNSAFE)) is None
    assert cluster.image.features == {FEATURE: 0}
    assert updated(cluster, (FEATURE, 1, UP), (FEATURE, 2, UP)) is None
    assert cluster.image.features == {FEATURE: 2}


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        ((FEATURE, 3, UP), "Local controller 1 only supports versions 0-2"),
        ((FEATURE, -1, UP), "A feature version cannot be less than 0."),
        (("nosuch", 1, UP), "Local controller 1 does not support this feature."),
        (("nosuch", 0, SAFE), "Feature nosuch not found."),
        ((FEATURE, 2, 0), "The controller does not support the given upgrade type."),
        ((FEATURE, 2, 4), "The controller does not support the given upgrade type."),
    ],
)
def test_an_update_that_is_not_allowed_makes_all_fail(
    update: tuple[str, int, int], reason: str
) -> None:
    cluster = cluster_of()
    assert updated(cluster, (FEATURE, 1, UP), update) == reason
    assert cluster.image.features == {}


def test_every_live_broker_must_support_a_new_level() -> None:
    cluster = cluster_of(second={FEATURE: (0, 2)}, third={FEATURE: (0, 1)})
    assert updated(cluster, (FEATURE, 2, UP)) == "Broker 3 only supports versions 0-1"
    assert updated(cluster, (FEATURE, 1, UP)) is None
    cluster.stop(3)
    assert updated(cluster, (FEATURE, 2, UP)) is None
    assert (
        updated(cluster_of(second={}), (FEATURE, 1, UP))
        == "Broker 2 does not support this feature."
    )
