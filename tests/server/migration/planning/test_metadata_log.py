"""The metadata log of Apache Kafka: snapshots, segments, metadata transactions and damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_protocol.internal.cluster_metadata import ProducerIdsRecord, RemoveTopicRecord
from oncelog_server.migration.planning.kafka_cluster import KafkaCluster
from oncelog_server.migration.planning.metadata_log import UnreadableMetadata, read_metadata_log
from oncelog_server.offline.read_only_files import ReadOnlyFiles
from tests.server.migration.kafka_folder import (
    TOPIC_ID,
    control_batch,
    metadata_batch,
    topic,
    write_metadata,
)

BEGIN, END, ABORT = b"\x01\x17\x00\x00", b"\x01\x18\x00\x00", b"\x01\x19\x00\x00"


def read(folder: Path) -> tuple[KafkaCluster, list[str]]:
    return read_metadata_log(ReadOnlyFiles(), str(folder))


def ids(number: int) -> ProducerIdsRecord:
    return ProducerIdsRecord(1, 5, number)


def test_the_log_alone_is_read(tmp_path: Path) -> None:
    cluster, notes = read(write_metadata(tmp_path))
    assert [found.name for found in cluster.topics.values()] == ["orders"]
    assert cluster.features == {"metadata.version": 30, "transaction.version": 2}
    assert cluster.next_producer_id == 1000
    assert notes == []


def test_the_newest_snapshot_replaces_the_records_before_it(tmp_path: Path) -> None:
    folder = write_metadata(tmp_path, *topic("old"))
    (folder / f"{2:020d}-{1:010d}.checkpoint").write_bytes(metadata_batch(0, *topic("older")))
    (folder / f"{9:020d}-{1:010d}.checkpoint").write_bytes(
        control_batch(0) + metadata_batch(1, *topic("new")) + control_batch(3)
    )
    (folder / f"{9:020d}.log").write_bytes(metadata_batch(9, ids(3000)))
    cluster, _ = read(folder)
    assert [found.name for found in cluster.topics.values()] == ["new"]
    assert cluster.next_producer_id == 3000


def test_a_segment_that_begins_before_the_snapshot_is_read_from_the_snapshot_on(
    tmp_path: Path,
) -> None:
    folder = write_metadata(tmp_path, *topic("old"))
    with (folder / f"{0:020d}.log").open("ab") as log:
        log.write(metadata_batch(3, ids(5000)))
    (folder / f"{3:020d}-{1:010d}.checkpoint").write_bytes(metadata_batch(0, *topic("new")))
    cluster, _ = read(folder)
    assert [found.name for found in cluster.topics.values()] == ["new"]
    assert cluster.next_producer_id == 5000


def test_a_snapshot_without_a_log_is_enough(tmp_path: Path) -> None:
    folder = write_metadata(tmp_path)
    (folder / f"{0:020d}.log").unlink()
    (folder / f"{9:020d}-{1:010d}.checkpoint").write_bytes(metadata_batch(0, *topic("new")))
    assert [found.name for found in read(folder)[0].topics.values()] == ["new"]


@pytest.mark.parametrize(("last", "expected"), [(END, 7000), (ABORT, 1000), (None, 1000)])
def test_only_a_complete_metadata_transaction_counts(
    tmp_path: Path, last: bytes | None, expected: int
) -> None:
    """KIP-868: records between Begin and Abort, or after an open Begin, have no effect."""
    folder = write_metadata(tmp_path, ids(1000))
    with (folder / f"{0:020d}.log").open("ab") as log:
        log.write(metadata_batch(2, raw=[BEGIN]) + metadata_batch(3, ids(7000)))
        if last is not None:
            log.write(metadata_batch(4, raw=[last]))
    assert read(folder)[0].next_producer_id == expected


def test_an_incomplete_batch_at_the_end_is_left_out_with_a_note(tmp_path: Path) -> None:
    folder = write_metadata(tmp_path, ids(1000))
    with (folder / f"{0:020d}.log").open("ab") as log:
        log.write(metadata_batch(2, ids(9000))[:-3])
    cluster, notes = read(folder)
    assert cluster.next_producer_id == 1000
    assert "incomplete batch" in notes[0]


def test_damage_before_a_valid_batch_is_refused(tmp_path: Path) -> None:
    folder = write_metadata(tmp_path, ids(1000))
    log = folder / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(bytes(data) + metadata_batch(2, ids(2000)))
    with pytest.raises(UnreadableMetadata, match="damaged at byte"):
        read(folder)


def test_missing_records_are_refused(tmp_path: Path) -> None:
    folder = write_metadata(tmp_path, ids(1000))
    (folder / f"{7:020d}.log").write_bytes(metadata_batch(7, ids(2000)))
    with pytest.raises(UnreadableMetadata, match="records 2 to 6 are missing"):
        read(folder)


def test_a_log_without_records_is_refused(tmp_path: Path) -> None:
    folder = write_metadata(tmp_path)
    (folder / f"{0:020d}.log").write_bytes(b"")
    with pytest.raises(UnreadableMetadata, match="has not started"):
        read(folder)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\x01\x63\x00", "unknown version 99 of a type of a metadata record"),
        (b"\x01\x02\x05", "unknown version 5 of a TopicRecord"),
    ],
)
def test_an_unknown_record_is_named_with_its_offset(
    tmp_path: Path, raw: bytes, message: str
) -> None:
    folder = write_metadata(tmp_path, ids(1000))
    with (folder / f"{0:020d}.log").open("ab") as log:
        log.write(metadata_batch(2, raw=[raw]))
    with pytest.raises(UnreadableMetadata, match=f"offset 2: {message}"):
        read(folder)


def test_a_record_of_an_unknown_topic_is_refused(tmp_path: Path) -> None:
    folder = write_metadata(tmp_path, RemoveTopicRecord(TOPIC_ID))
    with pytest.raises(UnreadableMetadata, match="unknown topic"):
        read(folder)
