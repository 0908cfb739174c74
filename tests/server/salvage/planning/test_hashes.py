"""Which hash a cluster uses, as its coordinators' folders show."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_protocol.internal.group_metadata import OffsetCommitKey, encode_offset_commit_key
from oncelog_protocol.internal.transaction_log import (
    TransactionLogKey,
    encode_transaction_log_key,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.coordinator.routing import PartitionOf, kafkas_partition_for, partition_for
from oncelog_server.offline.read_only_files import ReadOnlyFiles
from oncelog_server.salvage.planning.coordinator_ids import coordinator_ids
from oncelog_server.salvage.planning.evidence import facts_of_all
from oncelog_server.salvage.planning.hashes import uses_absolute_hash

STATE, OFFSETS = "__transaction_state", "__consumer_offsets"
COUNT = 5


def write(path: Path, topic: str, ids: list[str], partition_of: PartitionOf) -> None:
    for partition in range(COUNT):
        folder = path / f"{topic}-{partition}"
        folder.mkdir()
        keys = [
            encode_transaction_log_key(TransactionLogKey(id_))
            if topic == STATE
            else encode_offset_commit_key(OffsetCommitKey(id_, "t", 0))
            for id_ in ids
            if partition_of(id_, COUNT) == partition
        ]
        records = [NewRecord(1, key, b"value") for key in keys]
        data = bytes(build_batch(records)) if records else b""
        (folder / f"{0:020d}.log").write_bytes(data)


@pytest.mark.parametrize("topic", [STATE, OFFSETS])
@pytest.mark.parametrize("partition_of", [partition_for, kafkas_partition_for])
def test_the_places_of_ids_show_the_hash(
    tmp_path: Path, topic: str, partition_of: PartitionOf
) -> None:
    write(tmp_path, topic, [f"transactional-id-{number}" for number in range(30)], partition_of)
    names = sorted(folder.name for folder in tmp_path.iterdir())
    facts = list(facts_of_all(ReadOnlyFiles(), str(tmp_path), names))
    assert uses_absolute_hash(facts) is (partition_of is kafkas_partition_for)


def test_a_cluster_without_ids_has_oncelogs_hash() -> None:
    assert not uses_absolute_hash([])


def test_only_a_few_ids_are_read(tmp_path: Path) -> None:
    write(tmp_path, STATE, [f"id-{number}" for number in range(30)], lambda id_, count: 0)
    ids = coordinator_ids(ReadOnlyFiles(), str(tmp_path / f"{STATE}-0"), STATE, 4)
    assert ids == ("id-0", "id-1", "id-2", "id-3")
