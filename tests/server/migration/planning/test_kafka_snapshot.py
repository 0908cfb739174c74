"""The snapshot of Apache Kafka's metadata that an export writes."""

from __future__ import annotations

from pathlib import Path

from oncelog_protocol.internal.cluster_metadata import UserScramCredentialRecord
from oncelog_protocol.records.batch import read_records, split_batches
from oncelog_protocol.security.scram_credential import ScramMechanism
from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.records import (
    AclsRecord,
    ConfigRecord,
    FeaturesRecord,
    PartitionRecord,
    QuotasRecord,
    ScramCredentialRecord,
    TopicRecord,
)
from oncelog_server.cluster.store import Entry, Snapshot
from oncelog_server.migration.planning.kafka_snapshot import (
    ControllerAddress,
    KafkaSnapshot,
    kafka_snapshot,
)
from oncelog_server.migration.planning.metadata_log import read_metadata_log
from oncelog_server.offline.read_only_files import ReadOnlyFiles
from tests.server.migration.kafka_folder import DIRECTORY_ID, NODE, TOPIC_ID

CREDENTIAL = ScramCredentialRecord(b"salt", b"stored", b"server", 8192)
ID_TEXT = uuid_to_string(TOPIC_ID)
# Kafka 4.3.1 writes these control records for a node 1 at localhost:9093, with another directory.
VERSION = bytes.fromhex("0000000100")
VOTERS = (
    bytes.fromhex("00000200000001")
    + DIRECTORY_ID
    + bytes.fromhex("020b434f4e54524f4c4c45520a6c6f63616c686f737423850000000001000000")
)
ENTITY = (("client-id", None), ("user", "a,b"))


def snapshot_of(partitions: int = 2) -> KafkaSnapshot:
    values: dict[str, object] = {
        records.FEATURES: FeaturesRecord({"transaction.version": 2}),
        records.topic_key("orders"): TopicRecord(ID_TEXT, partitions, {"retention.ms": "5"}),
        records.acls_key(2, 3, "orders"): AclsRecord(
            (("User:a", "*", 3, 3), ("User:b", "10.0.0.1", 4, 2))
        ),
        records.scram_key(ScramMechanism.SCRAM_SHA_512, "alice"): CREDENTIAL,
    }
    for name, text in (("", "7"), (str(NODE), "8")):
        values[records.broker_config_key(name)] = ConfigRecord({"log.roll.ms": text})
    values[records.quotas_key(ENTITY)] = QuotasRecord({"producer_byte_rate": 1024.0})
    for number in range(partitions):
        record = PartitionRecord((NODE,), (NODE,), NODE, number + 3)
        values[records.partition_key(ID_TEXT, number)] = record
    entries = [Entry(key, records.encode(value), 1, 1) for key, value in sorted(values.items())]
    return kafka_snapshot(
        ClusterImage.of(Snapshot(1, tuple(entries))),
        node_id=NODE,
        directory_id=DIRECTORY_ID,
        controller=ControllerAddress("CONTROLLER", "localhost", 9093),
        next_producer_id=4000,
        now_ms=1,
    )


def test_an_import_reads_what_an_export_wrote(tmp_path: Path) -> None:
    snapshot = snapshot_of()
    (tmp_path / snapshot.name).write_bytes(snapshot.data)
    cluster, _ = read_metadata_log(ReadOnlyFiles(), str(tmp_path))
    (topic,) = cluster.topics.values()
    assert (topic.name, topic.id) == ("orders", TOPIC_ID)
    assert [partition.leader_epoch for partition in topic.partitions.values()] == [3, 4]
    assert topic.partitions[1].directories == [DIRECTORY_ID]
    assert cluster.settings == {
        (2, "orders"): {"retention.ms": "5"},
        (4, ""): {"log.roll.ms": "7"},
        (4, str(NODE)): {"log.roll.ms": "8"},
    }
    assert cluster.features["transaction.version"] == 2
    # Each access rule has an id of its own.
    assert len(cluster.acls) == 2
    assert {
        (acl.principal, acl.operation, acl.permission_type) for acl in cluster.acls.values()
    } == {
        ("User:a", 3, 3),
        ("User:b", 4, 2),
    }
    (credential,) = cluster.credentials.values()
    assert credential == UserScramCredentialRecord("alice", 2, b"salt", b"stored", b"server", 8192)
    assert cluster.quotas == {ENTITY: {"producer_byte_rate": 1024.0}}
    assert cluster.next_producer_id == 4000


def test_header_voters_and_footer_are_kafkas() -> None:
    data = snapshot_of().data
    positions = [position for position, _ in split_batches(data)]
    first, last = (
        read_records(data, position, max_bytes=1 << 20)
        for position in (positions[0], positions[-1])
    )
    assert [record.key for record in (*first, *last)] == [
        b"\0\0\0\x03", b"\0\0\0\x05", b"\0\0\0\x06", b"\0\0\0\x04",
    ]  # fmt: skip
    assert [record.value for record in first[1:]] == [VERSION, VOTERS]
    assert last[0].value == b"\0\0\0"


def test_offsets_are_consecutive_over_many_batches() -> None:
    snapshot = snapshot_of(partitions=1200)
    headers = [header for _, header in split_batches(snapshot.data)]
    assert len(headers) == 5
    ends = [header.next_offset for header in headers]
    assert [header.base_offset for header in headers] == [0, *ends[:-1]]
    assert snapshot.name == f"{ends[-1]:020d}-{1:010d}.checkpoint"
