"""Topics are created, grown, altered and deleted with Kafka's checks, error codes and messages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.internal_topics import internal_topic
from oncelog_server.cluster.store import Write
from oncelog_server.cluster.topic_alterations import (
    Alteration,
    AlterOperation,
    alter_topic,
    altered_settings,
    replaced_settings,
)
from oncelog_server.cluster.topic_deletion import delete_topics
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.cluster.topics import (
    NewPartitions,
    NewTopic,
    check_creation,
    create_partitions,
    create_topic,
    topic_put,
)
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from oncelog_server.settings.topics import topic_config
from tests.server.cluster.clusters import Cluster

SETTINGS = Settings()
SET, DELETE, APPEND, SUBTRACT = AlterOperation


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


def test_settings_are_altered_one_by_one() -> None:
    before = {"retention.ms": "5", "cleanup.policy": "delete", "segment.ms": "7"}
    alterations = [
        Alteration("retention.ms", SET, "6"),
        Alteration("segment.ms", DELETE, None),
        Alteration("flush.ms", DELETE, None),
        Alteration("cleanup.policy", APPEND, "compact,delete"),
    ]
    after = altered_settings(SETTINGS, before, alterations)
    assert after == {"retention.ms": "6", "cleanup.policy": "delete,compact"}
    without = altered_settings(SETTINGS, after, [Alteration("cleanup.policy", SUBTRACT, "delete")])
    assert without["cleanup.policy"] == "compact"


def test_a_list_that_was_not_set_grows_from_its_default() -> None:
    after = altered_settings(SETTINGS, {}, [Alteration("cleanup.policy", APPEND, "compact")])
    assert after == {"cleanup.policy": "delete,compact"}


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
        altered_settings(SETTINGS, {}, [alteration])
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


def test_the_record_of_a_partition_is_encoded_once_for_each_assignment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Encoding a record for each of 10,000 partitions took 60 ms of the event loop."""
    encoded: list[object] = []
    encode = records.encode

    def counted(record: object) -> bytes:
        encoded.append(record)
        return encode(record)

    monkeypatch.setattr(records, "encode", counted)
    cluster = Cluster((1, 2))
    encoded.clear()
    cluster.create("wide", 500, 2)
    assert len(encoded) == 2 + 2, (
        "the topic, its creation, and a partition for each of the two leaders"
    )
    leaders = {partition.leader for partition in cluster.image.topics["wide"].partitions}
    assert leaders == {1, 2}
