"""A snapshot of Apache Kafka's metadata, made from oncelog's (KIP-630; KIP-853 for the voters)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from oncelog_protocol.features import TRANSACTION_VERSION
from oncelog_protocol.internal.cluster_metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
    UserScramCredentialRecord,
    encode_metadata_record,
)
from oncelog_protocol.internal.kraft_control import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    Voter,
    VotersRecord,
    encode_kraft_control,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.cluster.image import NO_LEADER, ClusterImage, PartitionImage
from oncelog_server.migration.planning.kafka_cluster import BROKER_RESOURCE, TOPIC_RESOURCE
from oncelog_server.security.acls import Acl, Pattern

# The levels that `kafka-storage.sh format` of Apache Kafka 4.3.1 writes, without eligible leader
# replicas (KIP-966). With eligible leader replicas, the controller would remove every broker that
# it does not know from the ISR of each partition. The first level is that of metadata.version
# 4.3-IV0.
FEATURES: Final[Mapping[str, int]] = {
    "metadata.version": 30,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
}
EPOCH: Final = 1
# Version of the partition records without eligible leader replicas.
_PARTITION_VERSION: Final = 1
_RECORDS_OF_A_BATCH: Final = 500
_ID_BYTES: Final = 16


class ControllerAddress(NamedTuple):
    """The controller listener of the node that will start on the exported directory."""

    listener: str
    host: str
    port: int


class KafkaSnapshot(NamedTuple):
    """The snapshot's file name and content."""

    name: str
    data: bytes


def kafka_snapshot(
    image: ClusterImage,
    *,
    node_id: int,
    directory_id: bytes,
    controller: ControllerAddress,
    next_producer_id: int,
    now_ms: int,
) -> KafkaSnapshot:
    """Return the snapshot for the only node of a cluster."""
    voter = Voter(node_id, directory_id, [Endpoint(*controller)], KRaftVersionFeature(0, 1))
    controls = [
        SnapshotHeaderRecord(0, now_ms),
        KRaftVersionRecord(0, 1),
        VotersRecord(0, [voter]),
    ]
    values = list(_values(image, node_id, directory_id, next_producer_id))
    batches = [_controls(0, controls, now_ms)]
    offset = len(controls)
    for start in range(0, len(values), _RECORDS_OF_A_BATCH):
        chunk = values[start : start + _RECORDS_OF_A_BATCH]
        records = [NewRecord(now_ms, None, value) for value in chunk]
        batches.append(build_batch(records, base_offset=offset, leader_epoch=EPOCH))
        offset += len(records)
    batches.append(_controls(offset, [SnapshotFooterRecord(0)], now_ms))
    return KafkaSnapshot(f"{offset + 1:020d}-{EPOCH:010d}.checkpoint", b"".join(batches))


def _controls(base_offset: int, controls: Iterable[object], now_ms: int) -> bytearray:
    records = [NewRecord(now_ms, *encode_kraft_control(control)) for control in controls]
    return build_batch(records, base_offset=base_offset, leader_epoch=EPOCH, is_control=True)


def _values(
    image: ClusterImage, node_id: int, directory_id: bytes, next_producer_id: int
) -> Iterator[bytes]:
    levels = {**FEATURES, TRANSACTION_VERSION: image.features.get(TRANSACTION_VERSION, 0)}
    for name, level in levels.items():
        if level:
            yield encode_metadata_record(FeatureLevelRecord(name, level), 0)
    for pattern, acls in image.acls.items():
        for acl in acls:
            yield encode_metadata_record(_acl(pattern, acl), 0)
    for (mechanism, user), credential in image.scram_credentials.items():
        record = UserScramCredentialRecord(user, mechanism, *credential)
        yield encode_metadata_record(record, 0)
    for entity, limits in image.quotas.items():
        parts = [EntityData(*part) for part in entity]
        for quota, limit in limits.items():
            yield encode_metadata_record(ClientQuotaRecord(parts, quota, limit), 0)
    for resource, found in image.configs.items():
        broker = resource.removeprefix("broker/")
        for name, value in found.settings.items():
            yield encode_metadata_record(ConfigRecord(BROKER_RESOURCE, broker, name, value), 0)
    for topic in image.topics.values():
        yield encode_metadata_record(TopicRecord(topic.name, topic.id), 0)
        for partition in topic.partitions:
            placed = _partition(partition, node_id, directory_id)
            yield encode_metadata_record(placed, _PARTITION_VERSION)
        for name, value in topic.settings.items():
            yield encode_metadata_record(ConfigRecord(TOPIC_RESOURCE, topic.name, name, value), 0)
    yield encode_metadata_record(ProducerIdsRecord(node_id, -1, next_producer_id), 0)


def _acl(pattern: Pattern, acl: Acl) -> AccessControlEntryRecord:
    """Return the record of an access rule. Each rule needs an id of its own, random in Kafka."""
    record = AccessControlEntryRecord(
        resource_type=pattern.type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
    record.id = sha256(encode_metadata_record(record, 0)).digest()[:_ID_BYTES]
    return record


def _partition(partition: PartitionImage, node_id: int, directory_id: bytes) -> PartitionRecord:
    """Return the record of a partition without a leader. The controller elects the node, its only
    replica, when the node has registered."""
    return PartitionRecord(
        partition.partition,
        partition.topic_id,
        [node_id],
        [node_id],
        leader=NO_LEADER,
        leader_epoch=partition.leader_epoch,
        partition_epoch=0,
        directories=[directory_id],
    )
