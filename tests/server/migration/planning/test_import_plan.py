"""The plan of an import: what becomes of topics, ids and levels, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from oncelog_protocol.internal.cluster_metadata import (
    MESSAGES,
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    TopicRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from oncelog_protocol.security.scram_credential import ScramMechanism
from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.log.checkpoints import MetaProperties
from oncelog_server.metadata.founding import SUPPORTED_FEATURES
from oncelog_server.migration.planning.folders import KafkaFolder
from oncelog_server.migration.planning.groups import GroupKind
from oncelog_server.migration.planning.import_plan import ImportPlan, ImportPlanner
from oncelog_server.migration.planning.kafka_cluster import KafkaCluster
from oncelog_server.security.acls import Acl, Pattern, PatternType, Permission
from oncelog_server.security.resources import Operation, ResourceType
from oncelog_server.settings.model import Settings
from tests.server.migration.kafka_folder import (
    CLUSTER_ID,
    DIRECTORY_ID,
    NODE,
    TOPIC_ID,
    topic,
    usual_records,
)

TYPES = {cls: record_type for record_type, cls in MESSAGES.items()}
META = MetaProperties(CLUSTER_ID, NODE, uuid_to_string(DIRECTORY_ID))
FOLDER = KafkaFolder("orders-0", "orders", 0, TOPIC_ID, 100, leader_epoch=3, producer_id=17)
Groups = Mapping[GroupKind, Mapping[str, Sequence[int]]]


def plan_of(
    *records: object, folders: Sequence[KafkaFolder] = (FOLDER,), groups: Groups | None = None
) -> ImportPlan:
    cluster = KafkaCluster()
    for record in records:
        cluster.replay(TYPES[type(record)], record)
    planner = ImportPlanner(
        cluster, META, folders, groups or {}, features=SUPPORTED_FEATURES, settings=Settings()
    )
    return planner.plan()


def image_of(plan: ImportPlan) -> ClusterImage:
    assert plan.refusals == []
    return ClusterImage.of(plan.snapshot)


def test_topics_keep_ids_settings_and_epochs() -> None:
    image = image_of(
        plan_of(*usual_records(), ConfigRecord(2, "orders", "cleanup.policy", "compact"))
    )
    found = image.topics["orders"]
    assert (found.id, dict(found.settings)) == (TOPIC_ID, {"cleanup.policy": "compact"})
    (partition,) = found.partitions
    assert (partition.leader_epoch, partition.replicas, partition.isr) == (4, (NODE,), (NODE,))
    assert image.cluster_id == CLUSTER_ID
    assert dict(image.features) == {"transaction.version": 2}


def test_ids_belong_to_the_partitions_that_kafka_has_chosen() -> None:
    assert image_of(plan_of(*usual_records())).absolute_hash


def test_an_epoch_of_the_log_above_that_of_the_metadata_counts() -> None:
    folder = KafkaFolder("orders-0", "orders", 0, TOPIC_ID, 100, leader_epoch=9)
    image = image_of(plan_of(*usual_records(), folders=[folder]))
    assert image.topics["orders"].partitions[0].leader_epoch == 9


@pytest.mark.parametrize(("highest", "following"), [(17, 1000), (999, 1000), (1000, 2000)])
def test_the_next_producer_id_is_above_all_ids_in_the_logs(highest: int, following: int) -> None:
    folder = KafkaFolder("orders-0", "orders", 0, TOPIC_ID, 100, producer_id=highest)
    plan = plan_of(*usual_records(), folders=[folder])
    (value,) = [entry.value for entry in plan.snapshot.entries if entry.key == "producer_ids"]
    assert value == b'{"next_producer_id":%d}' % following


def test_a_cluster_without_transaction_version_has_level_0() -> None:
    assert dict(image_of(plan_of(ProducerIdsRecord(1, 5, 1000), folders=[])).features) == {
        "transaction.version": 0
    }


def test_folders_without_a_topic_are_left_out() -> None:
    folders = [
        FOLDER,
        KafkaFolder("gone-0", "gone", 0, b"g" * 16, 100),
        KafkaFolder("orders-1", "orders", 1, TOPIC_ID, 100),
    ]
    assert plan_of(*usual_records(), folders=folders).strays == ["gone-0", "orders-1"]


def test_a_folder_of_an_earlier_topic_of_the_same_name_is_left_out() -> None:
    folder = KafkaFolder("orders-0", "orders", 0, b"g" * 16, 100, old_format="old")
    plan = plan_of(*usual_records(), folders=[folder])
    assert (plan.strays, plan.refusals) == (["orders-0"], [])
    assert "partition orders-0 has no folder and will be empty" in plan.notes


@pytest.mark.parametrize(
    "name", ["leader.replication.throttled.replicas", "message.format.version"]
)
def test_settings_without_effect_are_left_out_with_a_note(name: str) -> None:
    plan = plan_of(*usual_records(), ConfigRecord(2, "orders", name, "3.0-IV1"))
    assert image_of(plan).topics["orders"].settings == {}
    assert f"orders: {name}=3.0-IV1 is left out: it has no effect" in plan.notes


def test_the_setting_of_each_new_cluster_is_no_obstacle() -> None:
    assert plan_of(ConfigRecord(4, "", "min.insync.replicas", "1"), folders=[]).refusals == []


def test_settings_of_groups_and_metrics_have_a_note() -> None:
    plan = plan_of(
        ConfigRecord(32, "g", "consumer.session.timeout.ms", "50000"),
        ConfigRecord(16, "m", "interval.ms", "1000"),
        folders=[],
    )
    assert plan.refusals == []
    assert any("the settings of group g are left out" in note for note in plan.notes)
    assert "the subscription m to client metrics is left out" in plan.notes


@pytest.mark.parametrize("kind", [GroupKind.CONSUMER, GroupKind.STREAMS])
def test_members_of_newer_protocols_join_again(kind: GroupKind) -> None:
    plan = plan_of(*usual_records(), groups={kind: {"g": [3]}})
    assert plan.refusals == []
    assert any("group g keeps its offsets" in note for note in plan.notes)


def on(*replicas: int, **fields: Any) -> list[object]:
    """Return the records of a topic with one partition on these brokers."""
    values: dict[str, Any] = {
        "isr": list(replicas),
        "leader": replicas[0],
        "leader_epoch": 4,
    } | fields
    return [TopicRecord("orders", TOPIC_ID), PartitionRecord(0, TOPIC_ID, list(replicas), **values)]


def test_access_rules_are_kept_by_pattern() -> None:
    plan = plan_of(
        AccessControlEntryRecord(b"1" * 16, 2, "orders", 3, "User:alice", "*", 3, 3),
        AccessControlEntryRecord(b"2" * 16, 2, "orders", 3, "User:bob", "10.0.0.1", 4, 2),
        AccessControlEntryRecord(b"3" * 16, 3, "g/", 4, "User:alice", "*", 2, 3),
        AccessControlEntryRecord(b"4" * 16, 2, "gone", 3, "User:alice", "*", 2, 3),
        RemoveAccessControlEntryRecord(b"4" * 16),
        folders=[],
    )
    assert plan.refusals == []
    image = ClusterImage.of(plan.snapshot)
    orders = Pattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)
    prefix = Pattern(ResourceType.GROUP, "g/", PatternType.PREFIXED)
    allow, deny = Permission.ALLOW, Permission.DENY
    assert image.acls == {
        orders: (
            Acl("User:alice", "*", Operation.READ, allow),
            Acl("User:bob", "10.0.0.1", Operation.WRITE, deny),
        ),
        prefix: (Acl("User:alice", "*", Operation.ALL, allow),),
    }
    assert any("access rules (ACLs): 3" in note for note in plan.notes)


def test_scram_credentials_are_kept() -> None:
    plan = plan_of(
        UserScramCredentialRecord("alice", 1, b"s", b"k", b"v", 4096),
        UserScramCredentialRecord("a/b", 2, b"S", b"K", b"V", 8192),
        folders=[],
    )
    assert image_of(plan).scram_credentials == {
        (ScramMechanism.SCRAM_SHA_256, "alice"): (b"s", b"k", b"v", 4096),
        (ScramMechanism.SCRAM_SHA_512, "a/b"): (b"S", b"K", b"V", 8192),
    }
    assert "SCRAM credentials of users: 2" in plan.notes


def test_quotas_are_kept_by_entity() -> None:
    pair = [EntityData("user", "alice"), EntityData("client-id", None)]
    plan = plan_of(
        ClientQuotaRecord(pair, "producer_byte_rate", 1024.0),
        ClientQuotaRecord(pair, "request_percentage", 12.5),
        ClientQuotaRecord([EntityData("ip", "10.0.0.1")], "connection_creation_rate", 5.0),
        folders=[],
    )
    assert plan.refusals == []
    assert ClusterImage.of(plan.snapshot).quotas == {
        (("client-id", None), ("user", "alice")): {
            "producer_byte_rate": 1024.0,
            "request_percentage": 12.5,
        },
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0},
    }
    assert "entities with quotas of clients: 2" in plan.notes


@pytest.mark.parametrize(
    ("records", "refusal"),
    [
        (
            [ClientQuotaRecord([EntityData("ip", "a.b")], "connection_creation_rate", 5.0)],
            "a quota of ClientQuotaEntity(entries={ip=a.b}): a.b is not a valid IP or resolvable "
            "host.",
        ),
        ([ZkMigrationStateRecord(2)], "the migration from ZooKeeper is not finalized"),
        (
            [UserScramCredentialRecord("alice", 3, b"s", b"k", b"v", 4096)],
            "the SCRAM credential of user alice has the unknown mechanism 3",
        ),
        (
            [AccessControlEntryRecord(b"1" * 16, 2, "orders", 3, "User:alice", "*", 99, 3)],
            "an ACL of User:alice on orders: Invalid operation UNKNOWN",
        ),
        (
            [ConfigRecord(4, "", "log.retention.ms", "1")],
            "the dynamic setting log.retention.ms=1 of all brokers",
        ),
        (
            [ConfigRecord(4, "1", "log.cleaner.threads", "2")],
            "the dynamic setting log.cleaner.threads=2 of broker 1",
        ),
        ([ConfigRecord(99, "x", "a", "b")], "the unknown resource type 99"),
        (
            [*topic(), ConfigRecord(2, "orders", "remote.storage.enable", "true")],
            "topic orders: ",
        ),
        ([*topic(), ConfigRecord(2, "orders", "unknown", "1")], "Unknown topic config name"),
        ([FeatureLevelRecord("transaction.version", 3)], "transaction.version is at level 3"),
        (on(2, 3), r"partition orders-0 is only on the brokers \[2, 3\]"),
        (on(2, NODE, isr=[2]), "orders-0: this broker is not in the ISR"),
    ],
)
def test_what_cannot_be_kept_is_refused(records: list[object], refusal: str) -> None:
    folders = [FOLDER] if any(isinstance(record, TopicRecord) for record in records) else []
    (found,) = plan_of(*records, folders=folders).refusals
    assert refusal.replace("\\", "") in found


@pytest.mark.parametrize(
    "records",
    [
        on(NODE, isr=[]),
        on(2, NODE, isr=[2, NODE]),
        on(2, NODE, isr=[2], eligible_leader_replicas=[NODE]),
    ],
)
def test_a_replica_with_all_committed_records_is_enough(records: list[object]) -> None:
    """The only replica, a replica in the ISR and an eligible leader replica (KIP-966) have them."""
    image = image_of(plan_of(*records))
    assert image.topics["orders"].partitions[0].replicas == (NODE,)


ANOTHER = b"another-director"
UNASSIGNED, LOST, MIGRATING = (number.to_bytes(16, "big") for number in range(3))


@pytest.mark.parametrize(
    ("directories", "of_broker", "refusal"),
    [
        ([ANOTHER], 1, True),
        ([], 1, True),
        ([DIRECTORY_ID], 2, False),
        ([UNASSIGNED], 1, False),
        ([MIGRATING], 1, False),
        ([UNASSIGNED], 2, True),
        ([MIGRATING], 2, True),
        ([LOST], 1, True),
    ],
)
def test_a_partition_in_another_directory_of_the_broker_is_refused(
    directories: list[bytes], of_broker: int, refusal: bool
) -> None:
    """While the controller does not know the directory of a partition, the records may be in any
    directory of the broker (KIP-858)."""
    broker = RegisterBrokerRecord(NODE, log_dirs=[DIRECTORY_ID, ANOTHER][:of_broker])
    plan = plan_of(broker, *on(NODE, directories=directories), folders=[])
    if refusal:
        assert plan.refusals == [
            "partition orders-0 is in another directory of this broker (log.dirs)"
        ]
    else:
        assert "partition orders-0 has no folder and will be empty" in plan.notes


@pytest.mark.parametrize("directory", [ANOTHER, LOST])
def test_a_folder_that_an_interrupted_move_has_left_is_refused(directory: bytes) -> None:
    (refusal,) = plan_of(*on(NODE, directories=[directory])).refusals
    assert refusal == "partition orders-0 is in another directory of this broker (log.dirs)"


def test_a_folder_of_a_partition_without_a_directory_is_taken() -> None:
    for directories in ([], [UNASSIGNED], [MIGRATING]):
        assert plan_of(*on(NODE, directories=directories)).refusals == []


def test_a_gap_in_the_partitions_is_refused() -> None:
    records = [TopicRecord("orders", TOPIC_ID), PartitionRecord(1, TOPIC_ID, [NODE], [NODE])]
    refusals = plan_of(*records, folders=[]).refusals
    assert "partition orders-0 is not in the metadata" in refusals


def test_old_message_formats_are_refused() -> None:
    folder = KafkaFolder("orders-0", "orders", 0, TOPIC_ID, 100, old_format="orders-0/0.log has v1")
    (found,) = plan_of(*usual_records(), folders=[folder]).refusals
    assert found.startswith("orders-0/0.log has v1.")


@pytest.mark.parametrize(
    ("kind", "refusal"),
    [
        (GroupKind.SHARE, "g is a share group"),
        (GroupKind.UNKNOWN, "group g has records of the unknown types 99"),
    ],
)
def test_groups_that_oncelog_does_not_have_are_refused(kind: GroupKind, refusal: str) -> None:
    (found,) = plan_of(*usual_records(), groups={kind: {"g": [99]}}).refusals
    assert refusal in found
