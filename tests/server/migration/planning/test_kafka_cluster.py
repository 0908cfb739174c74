"""The metadata of an Apache Kafka cluster after each type of record."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.internal.cluster_metadata import (
    MESSAGES,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RecordType,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from oncelog_server.migration.planning.kafka_cluster import KafkaCluster, MetadataConflict
from tests.server.migration.kafka_folder import TOPIC_ID, topic

TYPES = {cls: record_type for record_type, cls in MESSAGES.items()}
USER = [EntityData("user", "alice")]


def after(*records: object) -> KafkaCluster:
    cluster = KafkaCluster()
    for record in records:
        cluster.replay(TYPES[type(record)], record)
    return cluster


def change(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(0, TOPIC_ID, **fields)


@pytest.mark.parametrize("record_type", set(RecordType) - set(MESSAGES))
def test_types_without_a_table_have_no_effect(record_type: RecordType) -> None:
    cluster = after(*topic())
    cluster.replay(record_type, None)
    assert list(cluster.topics) == [TOPIC_ID]


def test_a_change_of_the_leader_raises_the_epoch() -> None:
    """KIP-631: a PartitionChangeRecord that names a leader raises the epoch, even if the leader
    stays the same."""
    partition = after(*topic(), change(leader=1), change(leader=-1)).topics[TOPIC_ID].partitions[0]
    assert (partition.leader, partition.leader_epoch) == (-1, 6)


def test_a_change_without_a_leader_keeps_the_epoch() -> None:
    changed = change(isr=[], eligible_leader_replicas=[1], replicas=[1, 2], directories=[b"d" * 16])
    partition = after(*topic(), changed).topics[TOPIC_ID].partitions[0]
    assert (partition.leader, partition.leader_epoch) == (1, 4)
    assert (partition.isr, partition.eligible) == ([], [1])
    assert (partition.replicas, partition.directories) == ([1, 2], [b"d" * 16])


def test_the_directories_of_a_broker_are_those_of_its_last_registration_or_change() -> None:
    first, second = b"1" * 16, b"2" * 16
    records = [
        RegisterBrokerRecord(1, log_dirs=[first]),
        RegisterBrokerRecord(2, log_dirs=[first]),
        BrokerRegistrationChangeRecord(1, log_dirs=[first, second]),
        BrokerRegistrationChangeRecord(1, fenced=-1),
    ]
    assert after(*records).directories == {1: [first, second], 2: [first]}
    assert after(*records, UnregisterBrokerRecord(2)).directories == {1: [first, second]}


@pytest.mark.parametrize(("name", "eligible"), [("", []), ("orders", []), ("other", [1])])
def test_eligible_replicas_end_for_a_topic_or_for_all(name: str, eligible: list[int]) -> None:
    changed = change(eligible_leader_replicas=[1])
    cluster = after(*topic(), changed, ClearElrRecord(name))
    assert cluster.topics[TOPIC_ID].partitions[0].eligible == eligible


def test_a_deleted_topic_loses_its_settings() -> None:
    cluster = after(
        *topic(), ConfigRecord(2, "orders", "retention.ms", "1"), RemoveTopicRecord(TOPIC_ID)
    )
    assert cluster.topics == {}
    assert cluster.settings == {}


def test_a_null_value_removes_a_setting() -> None:
    cluster = after(
        ConfigRecord(4, "", "a", "1"), ConfigRecord(4, "", "b", "2"), ConfigRecord(4, "", "a", None)
    )
    assert cluster.settings == {(4, ""): {"b": "2"}}


def test_level_0_removes_a_feature() -> None:
    assert after(FeatureLevelRecord("f", 1), FeatureLevelRecord("f", 0)).features == {}


def test_an_access_rule_is_in_force_until_it_is_removed() -> None:
    acl = AccessControlEntryRecord(b"1" * 16, 2, "orders", 3, "User:alice", "*", 3, 3)
    assert after(acl).acls == {b"1" * 16: acl}
    assert after(acl, RemoveAccessControlEntryRecord(b"1" * 16)).acls == {}


def test_the_last_credential_of_a_user_and_mechanism_is_in_force_until_it_is_removed() -> None:
    first = UserScramCredentialRecord("alice", 1, iterations=4096)
    last = UserScramCredentialRecord("alice", 1, iterations=8192)
    other = UserScramCredentialRecord("alice", 2)
    assert after(first, other, last).credentials == {(1, "alice"): last, (2, "alice"): other}
    removed = RemoveUserScramCredentialRecord("alice", 1)
    assert after(first, other, removed).credentials == {(2, "alice"): other}


def test_a_quota_is_in_force_until_it_is_removed() -> None:
    rate = ClientQuotaRecord(USER, "producer_byte_rate", 1.0)
    percentage = ClientQuotaRecord(USER, "request_percentage", 2.5)
    removed = ClientQuotaRecord(USER, "producer_byte_rate", 0.0, remove=True)
    alice = (("user", "alice"),)
    assert after(rate, percentage).quotas == {
        alice: {"producer_byte_rate": 1.0, "request_percentage": 2.5}
    }
    assert after(rate, removed).quotas == {}
    assert after(rate, percentage, removed).quotas == {alice: {"request_percentage": 2.5}}


@pytest.mark.parametrize(
    ("added", "removed", "shown"),
    [
        (
            DelegationTokenRecord("User:alice", token_id="t"),
            RemoveDelegationTokenRecord("t"),
            "a delegation token of User:alice",
        ),
    ],
)
def test_rights_are_in_force_until_they_are_removed(
    added: object, removed: object, shown: str
) -> None:
    assert list(after(added).rights.values()) == [shown]
    assert after(added, removed).rights == {}


@pytest.mark.parametrize(("state", "migrates"), [(0, False), (1, True), (2, True), (3, False)])
def test_a_migration_from_zookeeper_is_under_way_until_it_is_finalized(
    state: int, migrates: bool
) -> None:
    assert after(ZkMigrationStateRecord(state)).is_migrating_from_zookeeper is migrates


@pytest.mark.parametrize("record", [change(), PartitionRecord(0, TOPIC_ID)])
def test_a_record_of_an_unknown_topic_is_a_conflict(record: object) -> None:
    with pytest.raises(MetadataConflict, match="unknown topic"):
        after(record)


def test_a_change_of_an_unknown_partition_is_a_conflict() -> None:
    with pytest.raises(MetadataConflict, match="unknown orders-0"):
        after(TopicRecord("orders", TOPIC_ID), change())
