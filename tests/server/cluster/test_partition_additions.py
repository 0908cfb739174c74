"""Partitions are added with Kafka's checks, error codes and messages."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.partition_additions import (
    NewPartitions,
    check_additions,
    create_partitions,
)
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from tests.server.cluster.clusters import Cluster

SETTINGS = Settings()


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster((1, 2, 3))
    cluster.create("orders", 3, 2)
    return cluster


@pytest.mark.parametrize(
    ("new", "code", "words"),
    [
        (NewPartitions("none", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (NewPartitions("orders", 3), ErrorCode.INVALID_PARTITIONS, "already has 3 partition(s)."),
        (
            NewPartitions("orders", 2),
            ErrorCode.INVALID_PARTITIONS,
            "The topic orders currently has 3 partition(s); 2 would not be an increase.",
        ),
        (NewPartitions("orders", 2**31 - 1), ErrorCode.POLICY_VIOLATION, "Excessively large"),
        (
            NewPartitions("orders", 5, ((1, 2),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s)",
        ),
        (
            NewPartitions("orders", 4, ((1,),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "1 replica(s), but this is not consistent",
        ),
    ],
)
def test_partitions_that_cannot_be_added(
    cluster: Cluster, new: NewPartitions, code: ErrorCode, words: str
) -> None:
    with pytest.raises(Refused) as caught:
        create_partitions(cluster.image, SETTINGS, new)
    assert caught.value.code is code
    assert words in caught.value.message


def test_the_limit_of_a_request_holds_for_all_its_topics_together(cluster: Cluster) -> None:
    cluster.create("payments")
    image = cluster.image
    others = [NewPartitions("absent", 20_000), NewPartitions("orders", 1)]
    check_additions(
        image, [*others, NewPartitions("orders", 5_003), NewPartitions("payments", 5_001)]
    )
    with pytest.raises(Refused) as caught:
        check_additions(image, [NewPartitions("orders", 5_003), NewPartitions("payments", 5_002)])
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_partitions_are_added_and_the_old_ones_stay(cluster: Cluster) -> None:
    before = cluster.image.topics["orders"].partitions
    assert cluster.apply(create_partitions(cluster.image, SETTINGS, NewPartitions("orders", 300)))
    assert cluster.apply(
        create_partitions(cluster.image, SETTINGS, NewPartitions("orders", 301, ((3, 1),)))
    )
    after = cluster.image.topics["orders"].partitions
    assert after[:3] == before
    assert len(after) == 301
    assert after[300].replicas == (3, 1)
