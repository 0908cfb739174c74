"""The settings of topics are altered with Kafka's checks and error codes."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.store import Write
from oncelog_server.cluster.topic_alterations import (
    Alteration,
    AlterOperation,
    alter_topic,
    altered_settings,
    replaced_settings,
)
from oncelog_server.cluster.topic_writes import topic_put
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from oncelog_server.settings.topics import topic_config
from tests.server.cluster.clusters import Cluster

SETTINGS = Settings()
SET, DELETE, APPEND, SUBTRACT = AlterOperation


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster((1, 2, 3))
    cluster.create("orders", 3, 2)
    return cluster


def test_settings_are_altered_one_by_one() -> None:
    before = {"retention.ms": "5", "cleanup.policy": "delete", "segment.ms": "7"}
    alterations = [
        Alteration("retention.ms", SET, "6"),
        Alteration("segment.ms", DELETE, None),
        Alteration("flush.ms", DELETE, None),
        Alteration("cleanup.policy", APPEND, "compact,delete"),
    ]
    after = altered_settings(before, alterations)
    assert after == {"retention.ms": "6", "cleanup.policy": "delete,compact"}
    without = altered_settings(after, [Alteration("cleanup.policy", SUBTRACT, "delete")])
    assert without["cleanup.policy"] == "compact"


def test_a_list_that_was_not_set_grows_from_its_default() -> None:
    after = altered_settings({}, [Alteration("cleanup.policy", APPEND, "compact")])
    assert after == {"cleanup.policy": "delete,compact"}


def test_the_first_of_equal_entries_is_removed() -> None:
    name = "leader.replication.throttled.replicas"
    before = {name: "0:1,1:1,0:1,2:1"}
    assert altered_settings(before, [Alteration(name, SUBTRACT, "0:1")]) == {name: "1:1,0:1,2:1"}
    both = [Alteration(name, SUBTRACT, "0:1,0:1,3:1")]
    assert altered_settings(before, both) == {name: "1:1,2:1"}
    assert altered_settings(before, [Alteration(name, APPEND, "3:1,0:1,3:1")]) == {
        name: "0:1,1:1,0:1,2:1,3:1"
    }


@pytest.mark.parametrize(
    ("alteration", "code"),
    [
        (Alteration("retention.ms", APPEND, "5"), ErrorCode.INVALID_CONFIG),
        (Alteration("nonsense", SUBTRACT, "5"), ErrorCode.INVALID_CONFIG),
        (Alteration("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_alterations_that_are_refused(alteration: Alteration, code: ErrorCode) -> None:
    with pytest.raises(Refused) as caught:
        altered_settings({}, [alteration])
    assert caught.value.code is code


def test_replacing_demands_values() -> None:
    assert replaced_settings({"retention.ms": "5"}) == {"retention.ms": "5"}
    with pytest.raises(Refused) as caught:
        replaced_settings({"retention.ms": None})
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_altered_settings_are_checked_before_the_topic_is_looked_for(cluster: Cluster) -> None:
    for own, name, code in (
        ({"retention.ms": "x"}, "none", ErrorCode.INVALID_CONFIG),
        ({"retention.ms": "5"}, "none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        with pytest.raises(Refused) as caught:
            alter_topic(cluster.image, SETTINGS, name, own)
        assert caught.value.code is code
    assert cluster.apply(alter_topic(cluster.image, SETTINGS, "orders", {"retention.ms": "5"}))
    assert cluster.image.topics["orders"].settings == {"retention.ms": "5"}
    assert len(cluster.image.topics["orders"].partitions) == 3
    assert alter_topic(cluster.image, SETTINGS, "orders", {"retention.ms": "5"}) == []


def test_small_segments_that_are_stored_stay_and_new_ones_are_refused(cluster: Cluster) -> None:
    """An older release accepted small segments. A topic that has them must open, and its other
    settings can be changed."""
    topic = cluster.image.topics["orders"]
    small = {"segment.bytes": "4096"}
    assert cluster.apply([Write((), (topic_put(topic, settings=small),))])
    assert topic_config(SETTINGS, cluster.image.topics["orders"].settings).segment_bytes == 4096
    more = {**small, "retention.ms": "5"}
    assert cluster.apply(alter_topic(cluster.image, SETTINGS, "orders", more))
    for size in ("4097", "1048575"):
        with pytest.raises(Refused, match="Value must be at least 1048576") as caught:
            alter_topic(cluster.image, SETTINGS, "orders", {"segment.bytes": size})
        assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert alter_topic(cluster.image, SETTINGS, "orders", {"segment.bytes": "1048576"})
