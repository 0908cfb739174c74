"""The partitions of a request and of the cluster are limited (H64)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.internal_topics import internal_topic
from oncelog_server.cluster.partition_additions import NewPartitions, create_partitions
from oncelog_server.cluster.topic_deletion import delete_topics
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.cluster.topics import NewTopic, check_creation, create_topic
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from tests.server.cluster.clusters import Cluster

SETTINGS = Settings()


def test_h64_the_partitions_of_all_topics_of_a_request_are_limited() -> None:
    """As in Kafka, the limit counts all topics of a request, including topics that are refused."""
    check_creation(SETTINGS, [NewTopic("a", 9_998), NewTopic("b"), NewTopic("b", -7)])
    by_hand = NewTopic("a", assignments=tuple((number, (1,)) for number in range(10_000)))
    check_creation(SETTINGS, [by_hand])
    for topics in (
        [NewTopic("a", 5_000), NewTopic("b", 5_000), NewTopic("c")],
        [NewTopic(f"n{number}", 100) for number in range(1_000)],
        [by_hand, NewTopic("b", 1)],
    ):
        with pytest.raises(Refused, match="Excessively large number") as caught:
            check_creation(SETTINGS, topics)
        assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_h64_the_partitions_of_the_cluster_are_limited() -> None:
    settings = replace(SETTINGS, oncelog_max_partitions=100)
    cluster = Cluster((1,))

    def created(new: NewTopic) -> bool:
        return cluster.apply(create_topic(cluster.image, settings, new, cluster.new_id())[1])

    assert created(NewTopic("many", 97))
    assert created(NewTopic("one", 1))
    assert cluster.apply(create_partitions(cluster.image, settings, NewPartitions("one", 3))), (
        "exactly the maximum"
    )
    for refused in (
        lambda: created(NewTopic("another", 1)),
        lambda: create_partitions(cluster.image, settings, NewPartitions("one", 4)),
    ):
        with pytest.raises(Refused, match=r"oncelog\.max\.partitions") as caught:
            refused()
        assert caught.value.code is ErrorCode.POLICY_VIOLATION
    # A full cluster still creates the internal topics of groups and transactions.
    for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        assert created(internal_topic(cluster.image, settings, name))
    assert cluster.apply(delete_topics(cluster.image, settings, ["many"])[0])
    assert created(NewTopic("another", 97)), "a deletion makes room; internal topics do not count"
