"""Writes data directories in the format of Apache Kafka, without Apache Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oncelog_protocol.internal.cluster_metadata import (
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
    encode_metadata_record,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_protocol.types import uuid_to_string
from oncelog_server.log.checkpoints import encode_partition_metadata

CLUSTER_ID = uuid_to_string(b"cluster-cluster-")
DIRECTORY_ID = b"directory-direct"
TOPIC_ID = b"topic-id-topic-i"
NODE = 1
META = (
    "#\n#Fri Nov 27 08:19:19 UTC 2026\n"
    f"node.id={NODE}\ndirectory.id={uuid_to_string(DIRECTORY_ID)}\n"
    f"version=1\ncluster.id={CLUSTER_ID}\n"
)


def metadata_batch(base_offset: int, *records: object, raw: Sequence[bytes] = ()) -> bytes:
    """Return a batch of metadata records, and of records that are bytes already."""
    values = [*(encode_metadata_record(record, 0) for record in records), *raw]
    new = [NewRecord(1, None, value) for value in values]
    return bytes(build_batch(new, base_offset=base_offset, leader_epoch=1))


def control_batch(base_offset: int) -> bytes:
    """Return a batch as the leader of the metadata log writes at its election."""
    record = NewRecord(1, b"\0\0\0\2", bytes(6))
    return bytes(build_batch([record], base_offset=base_offset, leader_epoch=1, is_control=True))


def topic(name: str = "orders", partitions: int = 1, topic_id: bytes = TOPIC_ID) -> list[object]:
    """Return the records of a topic on this node."""
    replicas = [
        PartitionRecord(
            number,
            topic_id,
            [NODE],
            [NODE],
            leader=NODE,
            leader_epoch=4,
            directories=[DIRECTORY_ID],
        )
        for number in range(partitions)
    ]
    return [TopicRecord(name, topic_id), *replicas]


def usual_records() -> list[object]:
    return [
        FeatureLevelRecord("metadata.version", 30),
        FeatureLevelRecord("transaction.version", 2),
        ProducerIdsRecord(NODE, 5, 1000),
        *topic(),
    ]


def write_metadata(path: Path, *records: object) -> Path:
    """Write a data directory with these metadata records. Return the folder of the metadata."""
    folder = path / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (path / "meta.properties").write_text(META)
    (path / "bootstrap.checkpoint").write_bytes(b"")
    data = control_batch(0) + metadata_batch(1, *(records or usual_records()))
    (folder / f"{0:020d}.log").write_bytes(data)
    return folder


def write_partition(path: Path, folder: str, data: bytes, topic_id: bytes = TOPIC_ID) -> Path:
    """Write the folder of a partition with one segment."""
    target = path / folder
    target.mkdir(parents=True)
    (target / f"{0:020d}.log").write_bytes(data)
    (target / "partition.metadata").write_bytes(encode_partition_metadata(topic_id))
    return target
