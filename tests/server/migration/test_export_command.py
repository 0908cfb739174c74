"""`oncelog storage export` refuses a directory with more partitions or newer metadata than its
store has."""

from __future__ import annotations

from pathlib import Path

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
from oncelog_server.log.checkpoints import MetaProperties, encode_partition_metadata
from oncelog_server.migration.commands import storage
from oncelog_server.migration.new_metadata import write_new_metadata

ID, OTHER_ID, DELETED_ID = bytes(range(16)), b"o" * 16, b"d" * 16
DIRECTORY_ID = uuid_to_string(b"i" * 16)


def partition(path: Path, topic_id: bytes) -> None:
    path.mkdir(parents=True)
    (path / "00000000000000000000.log").touch()
    (path / "partition.metadata").write_bytes(encode_partition_metadata(topic_id))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory after a clean stop, with a topic of one partition and the folder of a deleted
    topic."""
    data = tmp_path / "data"
    id_text = uuid_to_string(ID)
    values = {
        records.CLUSTER: ClusterRecord(uuid_to_string(b"c" * 16)),
        records.topic_key("t"): TopicRecord(id_text, 1),
        records.partition_key(id_text, 0): PartitionRecord((1,), (1,), 1, 0),
        records.deletion_key(uuid_to_string(DELETED_ID)): DeletionRecord("gone", 1),
    }
    entries = (Entry(key, records.encode(value), 1, 1) for key, value in sorted(values.items()))
    meta = MetaProperties(uuid_to_string(b"c" * 16), 1, DIRECTORY_ID)
    partition(data / "t-0", ID)
    partition(data / "gone-0", DELETED_ID)
    write_new_metadata(data, Snapshot(1, tuple(entries)), meta, lambda what: None)
    (data / ".kafka_cleanshutdown").touch()
    return data


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
