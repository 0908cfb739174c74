"""Topics are created with Kafka's checks, error codes and messages."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.topics import NewTopic, create_topic
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from tests.server.cluster.clusters import Cluster

SETTINGS = Settings()


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster((1, 2, 3))
    cluster.create("taken.name")
    cluster.create("orders", 3, 2)
    return cluster


@pytest.mark.parametrize(
    ("new", "code", "words"),
    [
        (NewTopic("orders"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists."),
        (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "the empty string is not allowed"),
        (NewTopic("."), ErrorCode.INVALID_TOPIC_EXCEPTION, "'.' is not allowed"),
        (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "'..' is not allowed"),
        (NewTopic("a" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION, "longer than the max allowed"),
        (NewTopic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "other than ASCII alphanumerics"),
        (NewTopic("a\n"), ErrorCode.INVALID_TOPIC_EXCEPTION, "other than ASCII alphanumerics"),
        (NewTopic("ä"), ErrorCode.INVALID_TOPIC_EXCEPTION, "other than ASCII alphanumerics"),
        (
            NewTopic("taken_name"),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic 'taken_name' collides with existing topic: taken.name",
        ),
        (NewTopic("n", 0), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (NewTopic("n", -2), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (NewTopic("n", 2**31 - 1), ErrorCode.POLICY_VIOLATION, "Excessively large"),
        (NewTopic("n", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (
            NewTopic("n", 1, 4),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "target replication factor of 4 cannot be reached because only 3 broker(s)",
        ),
        (
            NewTopic("n", 1, -1, ((0, (1,)),)),
            ErrorCode.INVALID_REQUEST,
            "numPartitions was not set to -1",
        ),
        (
            NewTopic("n", -1, 1, ((0, (1,)),)),
            ErrorCode.INVALID_REQUEST,
            "replication factor was not set to -1",
        ),
        (
            NewTopic("n", assignments=((0, (1,)), (0, (2,)))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "multiple manual partition assignments for partition 0",
        ),
        (
            NewTopic("n", assignments=((0, (1,)), (2, (2,)))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "consecutive 0-based",
        ),
        (
            NewTopic("n", assignments=((0, ()),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "empty replica list",
        ),
        (
            NewTopic("n", assignments=((0, (1, 1)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "the broker 1 more than once",
        ),
        (
            NewTopic("n", assignments=((0, (9,)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "broker 9, but no such broker is registered",
        ),
        (
            NewTopic("n", assignments=((0, (1,)), (1, (1, 2)))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "2 replica(s), but this is not consistent with previous partitions, which have 1",
        ),
        (
            NewTopic("n", settings={"retention.ms": "x"}),
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration retention.ms",
        ),
        (
            NewTopic("n", settings={"nonsense": "x"}),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: nonsense",
        ),
        (
            NewTopic("n", settings={"retention.ms": None}),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            NewTopic("n", settings={"remote.storage.enable": "true"}),
            ErrorCode.INVALID_CONFIG,
            "remote.storage.enable: refused: remote (tiered) storage is not built",
        ),
    ],
)
def test_a_topic_that_cannot_be_created(
    cluster: Cluster, new: NewTopic, code: ErrorCode, words: str
) -> None:
    with pytest.raises(Refused) as caught:
        create_topic(cluster.image, SETTINGS, new, cluster.new_id())
    assert caught.value.code is code
    assert words in caught.value.message


def test_a_topic_takes_the_brokers_defaults(cluster: Cluster) -> None:
    settings = Settings(num_partitions=4, default_replication_factor=2)
    created, writes = create_topic(cluster.image, settings, NewTopic("n"), cluster.new_id())
    assert (created.partitions, created.replication_factor) == (4, 2)
    assert cluster.apply(writes)
    topic = cluster.image.topics["n"]
    assert len(topic.partitions) == 4
    leaders = [partition.leader for partition in topic.partitions]
    assert set(leaders[:3]) == {1, 2, 3}
    assert leaders[3] == leaders[0]
    assert all(partition.isr == partition.replicas for partition in topic.partitions)


def test_replicas_are_assigned_as_in_the_request(cluster: Cluster) -> None:
    new = NewTopic("n", assignments=((1, (3, 1)), (0, (2, 3))), settings={"retention.ms": "-1"})
    assert cluster.apply(create_topic(cluster.image, SETTINGS, new, cluster.new_id())[1])
    topic = cluster.image.topics["n"]
    assert [partition.replicas for partition in topic.partitions] == [(2, 3), (3, 1)]
    assert topic.settings == {"retention.ms": "-1"}


def test_of_two_requests_for_the_same_topic_one_creates_it(cluster: Cluster) -> None:
    created = create_topic(cluster.image, SETTINGS, NewTopic("n"), cluster.new_id())[1]
    two = create_topic(cluster.image, SETTINGS, NewTopic("n"), cluster.new_id())[1]
    assert cluster.apply(created)
    assert not cluster.apply(two)
