"""The kinds of the groups in `__consumer_offsets`."""

from __future__ import annotations

from pathlib import Path

from oncelog_protocol.internal.group_metadata import (
    GroupMetadataKey,
    OffsetCommitKey,
    encode_group_metadata_key,
    encode_offset_commit_key,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.migration.planning.groups import GroupKind, groups_by_kind
from oncelog_server.offline.read_only_files import ReadOnlyFiles
from tests.server.migration.kafka_folder import write_partition

FOLDER = "__consumer_offsets-0"


def key(number: int, group: str) -> bytes:
    """Return a key with its first field, the group. All types of keys begin so."""
    name = group.encode()
    return number.to_bytes(2, "big") + len(name).to_bytes(2, "big") + name


def kinds(path: Path, *keys: tuple[bytes, bytes | None]) -> dict[GroupKind, dict[str, list[int]]]:
    new = [NewRecord(1, found, value) for found, value in keys]
    write_partition(path, FOLDER, bytes(build_batch(new)))
    return groups_by_kind(ReadOnlyFiles(), str(path), [FOLDER])


def test_the_type_of_a_record_says_the_kind_of_its_group(tmp_path: Path) -> None:
    assert kinds(
        tmp_path,
        (encode_offset_commit_key(OffsetCommitKey("classic", "t", 0)), b"v"),
        (encode_group_metadata_key(GroupMetadataKey("classic")), b"v"),
        (key(3, "consumer"), b"v"),
        (key(16, "consumer"), b"v"),
        (key(11, "share"), b"v"),
        (key(17, "streams"), b"v"),
        (key(99, "new"), b"v"),
    ) == {
        GroupKind.CLASSIC: {"classic": [1, 2]},
        GroupKind.CONSUMER: {"consumer": [3, 16]},
        GroupKind.SHARE: {"share": [11]},
        GroupKind.STREAMS: {"streams": [17]},
        GroupKind.UNKNOWN: {"new": [99]},
    }


def test_a_deleted_record_does_not_count(tmp_path: Path) -> None:
    assert kinds(tmp_path, (key(11, "share"), b"v"), (key(11, "share"), None)) == {}


def test_a_key_without_a_type_is_unknown(tmp_path: Path) -> None:
    assert kinds(tmp_path, (b"\x01", b"v")) == {GroupKind.UNKNOWN: {"": [-1]}}
