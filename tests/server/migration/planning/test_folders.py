"""What the folder of a partition of Apache Kafka shows."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.migration.planning.folders import NONE, KafkaFolder, look_at_all
from oncelog_server.offline.read_only_files import ReadOnlyFiles
from tests.server.migration.kafka_folder import TOPIC_ID, write_partition


def batch(base_offset: int, producer_id: int = NONE, leader_epoch: int = 0) -> bytes:
    return bytes(
        build_batch(
            [NewRecord(1, None, b"value")],
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else NONE,
            base_sequence=0 if producer_id >= 0 else NONE,
        )
    )


def old_message(offset: int, magic: int) -> bytes:
    """Return a message of format v0 or v1 (KIP-32): offset, size, CRC, magic, attributes, a
    timestamp in v1, a null key and a value."""
    timestamp = bytes(8) if magic else b""
    body = bytes((magic, 0)) + timestamp + b"\xff\xff\xff\xff\0\0\0\x01v"
    body = zlib.crc32(body).to_bytes(4, "big") + body
    return offset.to_bytes(8, "big") + len(body).to_bytes(4, "big") + body


def look(path: Path) -> list[KafkaFolder]:
    names = sorted(found.name for found in path.iterdir())
    return list(look_at_all(ReadOnlyFiles(), str(path), names))


def test_epochs_ids_and_the_topic_id_are_found(tmp_path: Path) -> None:
    data = batch(0, leader_epoch=2) + batch(1, producer_id=7, leader_epoch=3) + batch(2)
    write_partition(tmp_path, "orders-0", data)
    assert look(tmp_path) == [
        KafkaFolder("orders-0", "orders", 0, TOPIC_ID, len(data), leader_epoch=3, producer_id=7)
    ]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("before", [b"", batch(0)])
def test_an_old_message_format_is_named(tmp_path: Path, magic: int, before: bytes) -> None:
    write_partition(tmp_path, "orders-0", before + old_message(1, magic) + old_message(2, magic))
    assert look(tmp_path)[0].old_format == (
        f"orders-0/{0:020d}.log has records of message format v{magic} at byte {len(before)}"
    )


@pytest.mark.parametrize(
    "end",
    [
        batch(1)[:40],
        bytes(4096),
        old_message(1, 0)[:-1],
        old_message(1, 1)[:-1] + b"w",
        old_message(1, 0)[:16],
    ],
    ids=["incomplete", "preallocated", "incomplete v0", "wrong CRC", "without a magic"],
)
def test_a_torn_end_is_no_old_format(tmp_path: Path, end: bytes) -> None:
    """Apache Kafka and a start of oncelog cut such an end (`log.preallocate`, a power failure)."""
    write_partition(tmp_path, "orders-0", batch(0) + end)
    assert look(tmp_path)[0].old_format is None


def test_a_damaged_topic_id_counts_as_missing(tmp_path: Path) -> None:
    write_partition(tmp_path, "orders-0", b"")
    (tmp_path / "orders-0" / "partition.metadata").write_text("nothing")
    assert look(tmp_path)[0].topic_id is None


def test_folders_of_deletions_and_moves_are_not_partitions(tmp_path: Path) -> None:
    for name in (f"orders-0.{'a' * 32}-delete", f"orders-0.{'a' * 32}-future"):
        write_partition(tmp_path, name, batch(0))
    assert look(tmp_path) == []
