"""`oncelog storage export` on written directories. It refuses a directory with more partitions or
newer metadata than its store has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.records import (
    ClusterRecord,
    DeletionRecord,
    PartitionRecord,
    TopicRecord,
)
from oncelog_server.cluster.store import Entry, Snapshot
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.log.checkpoints import MetaProperties, encode_partition_metadata
from oncelog_server.migration.commands import storage
from oncelog_server.migration.new_metadata import write_new_metadata
from oncelog_server.migration.planning.metadata_log import METADATA_LOG, read_metadata_log
from oncelog_server.offline.read_only_files import ReadOnlyFiles

ID, OTHER_ID, DELETED_ID, STATE_ID = bytes(range(16)), b"o" * 16, b"d" * 16, b"s" * 16
DIRECTORY_ID = uuid_to_string(b"i" * 16)


def partition(path: Path, topic_id: bytes) -> None:
    path.mkdir(parents=True)
    (path / "00000000000000000000.log").touch()
    (path / "partition.metadata").write_bytes(encode_partition_metadata(topic_id))


def written(path: Path, more: Mapping[str, Any] = MappingProxyType({})) -> Path:
    """Write a directory after a clean stop, with a topic of one partition, the folder of a deleted
    topic, and the records in `more`."""
    id_text = uuid_to_string(ID)
    values = {
        records.CLUSTER: ClusterRecord(uuid_to_string(b"c" * 16)),
        records.topic_key("t"): TopicRecord(id_text, 1),
        records.partition_key(id_text, 0): PartitionRecord((1,), (1,), 1, 0),
        records.deletion_key(uuid_to_string(DELETED_ID)): DeletionRecord("gone", 1),
        **more,
    }
    entries = (Entry(key, records.encode(value), 1, 1) for key, value in sorted(values.items()))
    meta = MetaProperties(uuid_to_string(b"c" * 16), 1, DIRECTORY_ID)
    partition(path / "t-0", ID)
    partition(path / "gone-0", DELETED_ID)
    write_new_metadata(path, Snapshot(1, tuple(entries)), meta, lambda what: None)
    (path / ".kafka_cleanshutdown").touch()
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return written(tmp_path / "data")


def export(data: Path) -> Result:
    return CliRunner().invoke(
        storage, ["export", str(data.parent / "kafka"), "--data", str(data), "--yes"]
    )


def test_the_folder_of_a_deleted_topic_is_left_out(data: Path) -> None:
    result = export(data)
    assert result.exit_code == 0, result.output
    assert {path.name for path in (data.parent / "kafka").glob("*-0")} == {
        "t-0",
        "__cluster_metadata-0",
    }


def test_the_partitions_of_the_transaction_coordinator_get_one_epoch(tmp_path: Path) -> None:
    id_text = uuid_to_string(STATE_ID)
    more: dict[str, Any] = {records.topic_key(TRANSACTION_STATE): TopicRecord(id_text, 2)}
    for number, epoch in enumerate((12, 3)):
        record = PartitionRecord((1,), (1,), 1, epoch)
        more[records.partition_key(id_text, number)] = record
    data = written(tmp_path / "data", more)
    for number in range(2):
        partition(data / f"{TRANSACTION_STATE}-{number}", STATE_ID)
    result = export(data)
    assert result.exit_code == 0, result.output
    cluster, _ = read_metadata_log(ReadOnlyFiles(), str(tmp_path / "kafka" / METADATA_LOG))
    epochs = {
        topic.name: [topic.partitions[number].leader_epoch for number in sorted(topic.partitions)]
        for topic in cluster.topics.values()
    }
    assert epochs == {"t": [0], TRANSACTION_STATE: [12, 12]}


@pytest.mark.parametrize("name", ["later-0", "t-1", "brokers/2/later-0"])
def test_a_folder_that_the_metadata_does_not_have_is_named_and_refused(
    data: Path, name: str
) -> None:
    partition(data / name, OTHER_ID)
    result = export(data)
    assert result.exit_code == 1
    assert f"  {name} is a partition that the metadata does not have" in result.output
    assert not (data.parent / "kafka").exists()


def test_metadata_in_etcd_is_not_exported_from_a_store_that_was_left(data: Path) -> None:
    (data / "oncelog-cluster-revision").write_bytes(b"7")
    result = export(data)
    assert result.exit_code == 1
    assert f"the metadata of {data} is in etcd: " in result.output
    assert "oncelog cluster export" in result.output
    assert not (data.parent / "kafka").exists()
