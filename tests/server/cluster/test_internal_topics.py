"""The internal topics that a broker creates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.internal_topics import internal_topic
from oncelog_server.cluster.topic_names import (
    CONSUMER_OFFSETS,
    INTERNAL_TOPICS,
    TRANSACTION_STATE,
)
from oncelog_server.cluster.topics import create_topic
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from tests.server.cluster.clusters import Cluster

SETTINGS = Settings()


@pytest.mark.parametrize("name", [CONSUMER_OFFSETS, TRANSACTION_STATE])
@pytest.mark.parametrize("brokers", [1, 2, 5])
def test_internal_topics_need_no_settings(name: str, brokers: int) -> None:
    cluster = Cluster(range(1, brokers + 1))
    new = internal_topic(cluster.image, SETTINGS, name)
    created, writes = create_topic(cluster.image, SETTINGS, new, cluster.new_id())
    assert cluster.apply(writes)
    assert (created.partitions, created.replication_factor) == (50, min(3, brokers))
    assert created.settings["cleanup.policy"] == "compact"
    assert created.settings["segment.bytes"] == "104857600"


@pytest.mark.parametrize("name", sorted(INTERNAL_TOPICS))
def test_in_a_cluster_internal_topics_wait_for_enough_live_brokers(name: str) -> None:
    """The first request that came while one broker of three was alive made a topic with a single
    replica for good."""
    cluster = Cluster((1, 2, 3))
    cluster.drain(3)
    with pytest.raises(
        Refused, match=r"needs 3 live brokers \(.*replication.factor\), and 2"
    ) as no:
        internal_topic(cluster.image, SETTINGS, name, is_alone=False)
    assert no.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    cluster.register(4)
    new = internal_topic(cluster.image, SETTINGS, name, is_alone=False)
    assert new.replication_factor == 3


def test_both_coordinators_have_the_same_replicas() -> None:
    cluster = Cluster((1, 2, 3, 4))
    for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        new = internal_topic(cluster.image, SETTINGS, name, is_alone=False)
        cluster.apply(create_topic(cluster.image, SETTINGS, new, cluster.new_id())[1])
        # The new broker would change the assignments of the second topic, if these did not follow
        # the assignments of the first topic.
        cluster.register(5 if name == CONSUMER_OFFSETS else 6)
    offsets, transactions = (
        [found.replicas for found in cluster.image.topics[name].partitions]
        for name in (CONSUMER_OFFSETS, TRANSACTION_STATE)
    )
    assert offsets == transactions
    assert {len(set(replicas)) for replicas in offsets} == {3}
    leaders = [replicas[0] for replicas in offsets]
    assert max(map(leaders.count, (1, 2, 3, 4))) - min(map(leaders.count, (1, 2, 3, 4))) <= 1


def test_a_coordinator_with_other_settings_is_placed_by_itself() -> None:
    cluster = Cluster((1, 2, 3))
    for name, partitions in ((CONSUMER_OFFSETS, 50), (TRANSACTION_STATE, 10)):
        settings = replace(SETTINGS, transaction_state_log_num_partitions=partitions)
        new = internal_topic(cluster.image, settings, name, is_alone=False)
        assert (new.partitions, new.assignments) == (partitions, ())
        cluster.apply(create_topic(cluster.image, settings, new, cluster.new_id())[1])
