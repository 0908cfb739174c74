"""Directories and files that a crash leaves behind: strays, and unfinished deletions and
checkpoints. They do no harm later."""

from __future__ import annotations

import pytest

from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.store import Delete, Write
from oncelog_server.cluster.topic_deletion import delete_topics
from oncelog_server.log.checkpoints import encode_partition_metadata
from oncelog_server.settings.model import Settings
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import deleted_directory, stray_directory
from oncelog_server.strays import Folders, look_at_folders, put_strays_aside
from tests.server.cluster.clusters import Cluster
from tests.server.storage.memory_files import MemoryFiles

UNIQUE = b"u" * 16


def directory(files: MemoryFiles, name: str, topic_id: bytes | None) -> None:
    files.make_directory(name)
    if topic_id is not None:
        files.replace(f"{name}/partition.metadata", encode_partition_metadata(topic_id))


def delete(cluster: Cluster, name: str) -> None:
    assert cluster.apply(delete_topics(cluster.image, Settings(), [name])[0])


def moved(files: MemoryFiles, image: ClusterImage, broker_id: int = 1) -> list[tuple[str, str]]:
    folders = look_at_folders(files, image, broker_id)
    return [
        (stray.name, aside) for stray, aside in put_strays_aside(files, folders, lambda: UNIQUE)
    ]


def test_each_stray_has_its_reason() -> None:
    """Only a record of the deletion shows that a topic was deleted."""
    cluster = Cluster((1, 2))
    gone = cluster.create("gone")
    delete(cluster, "gone")
    elsewhere = cluster.create("elsewhere", 1, 1)
    files = MemoryFiles()
    directory(files, "gone-0", gone)
    directory(files, "elsewhere-0", elsewhere)
    directory(files, "unknown-0", b"n" * 16)
    (leader,) = cluster.image.topics["elsewhere"].partitions[0].replicas
    folders = look_at_folders(files, cluster.image, 3 - leader)
    folders.take_unknown_as_strays()
    assert folders.unknown == []
    reasons = {stray.name: stray.reason for stray in folders.strays}
    assert reasons == {
        "gone-0": "the topic was deleted",
        "elsewhere-0": "the metadata assigns the partition to other brokers",
        "unknown-0": "the metadata does not have the partition, and no record of its deletion",
    }


def test_partitions_of_a_deleted_topic_are_put_aside_and_the_others_stay() -> None:
    cluster = Cluster((1, 2))
    topic_id = cluster.create("orders", 2, 2)
    cluster.create("elsewhere")
    gone = cluster.create("gone", 2)
    delete(cluster, "gone")
    files = MemoryFiles()
    directory(files, "orders-0", topic_id)
    directory(files, "orders-1", None)
    directory(files, "gone-0", gone)
    directory(files, "gone-1", None)
    directory(files, "another-folder", None)
    files.replace("meta.properties", b"")
    assert moved(files, cluster.image) == [
        ("gone-0", stray_directory("gone", 0, UNIQUE)),
        ("gone-1", stray_directory("gone", 1, UNIQUE)),
    ]
    assert files.exists(f"gone-0.{UNIQUE.hex()}-stray/partition.metadata")
    assert {"orders-0", "orders-1", "another-folder", "meta.properties"} <= set(files.list(""))
    assert moved(files, cluster.image) == []


def test_directories_that_the_store_does_not_know_are_found() -> None:
    """A directory with a topic id is unknown if the store has no partition with its name and this
    id. A directory without a topic id is unknown if the store has no partition with its name, and
    the directory has a log."""
    cluster = Cluster()
    topic_id = cluster.create("orders", 2)
    cluster.create("again")
    files = MemoryFiles()
    directory(files, "orders-0", topic_id)
    directory(files, "orders-2", topic_id)
    directory(files, "again-0", b"another topic id")
    directory(files, "new-0", b"n" * 16)
    directory(files, "bare-0", None)
    files.replace("bare-0/00000000000000000000.log", b"")
    directory(files, "empty-0", None)
    found = look_at_folders(files, cluster.image, 1)
    assert found.unknown == ["again-0", "bare-0", "new-0", "orders-2"]
    assert found.strays == []


def test_a_recreated_topic_has_another_id() -> None:
    cluster = Cluster()
    old = cluster.create("orders")
    delete(cluster, "orders")
    cluster.create("orders")
    files = MemoryFiles()
    directory(files, "orders-0", old)
    assert len(moved(files, cluster.image)) == 1
    assert not files.exists("orders-0")


def test_a_deletion_is_remembered_while_a_directory_of_the_topic_is_left() -> None:
    cluster = Cluster()
    old = cluster.create("orders")
    delete(cluster, "orders")
    assert set(cluster.image.deletions) == {old}
    files = MemoryFiles()
    directory(files, "orders-0", old)
    assert look_at_folders(files, cluster.image, 1).remembered == {old}
    moved(files, cluster.image)
    assert look_at_folders(files, cluster.image, 1).remembered == {old}
    files.remove([stray_directory("orders", 0, UNIQUE)])
    for call in files.pending:
        call()
    assert look_at_folders(files, cluster.image, 1).remembered == set()


def test_unfinished_files_are_deleted_and_no_other_file() -> None:
    """The broker repeats a deletion that a kill interrupted. It does not delete a new file of the
    same name."""
    cluster = Cluster()
    files = MemoryFiles()
    unfinished = [
        ".kafka_cleanshutdown.tmp",
        "cleaner-offset-checkpoint.tmp",
        "log-start-offset-checkpoint.tmp",
        "meta.properties.tmp",
        "oncelog-boot.tmp",
        "oncelog-closed-logs-checkpoint.tmp",
        "oncelog-migration.tmp",
        "recovery-point-offset-checkpoint.tmp",
        "replication-offset-checkpoint.tmp",
    ]
    kept = ["mine.tmp", "mine.tmp.deleted", "recovery-point-offset-checkpoint"]
    for name in (*unfinished, *kept):
        files.open(name, create=True)
    folders = look_at_folders(files, cluster.image, 1)
    assert put_strays_aside(files, folders, lambda: UNIQUE) == []
    assert folders.unfinished == []
    marked = [f"{name}.deleted" for name in unfinished]
    assert files.list("") == sorted([*kept, *marked])
    files = files.after_kill()
    files.open(unfinished[0], create=True)
    put_strays_aside(
        files, Folders(leaving=look_at_folders(files, cluster.image, 1).leaving), bytes
    )
    files.settle()
    assert files.list("") == sorted([*kept, unfinished[0]])


def test_an_unfinished_checkpoint_on_a_full_disk_does_not_keep_the_broker_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    files = MemoryFiles()
    name = "recovery-point-offset-checkpoint.tmp"
    files.open(name, create=True)

    def full(path: str, target: str) -> None:
        raise StorageError("rename", path, "No space left on device")

    monkeypatch.setattr(files, "rename", full)
    folders = look_at_folders(files, cluster.image, 1)
    assert put_strays_aside(files, folders, lambda: UNIQUE) == []
    files.settle()
    assert files.list("") == folders.unfinished == [name]


def test_the_directory_of_a_partition_that_only_other_brokers_have_is_a_stray() -> None:
    cluster = Cluster((1, 2))
    topic_id = cluster.create("orders", 1, 1)
    files = MemoryFiles()
    directory(files, "orders-0", topic_id)
    assert len(moved(files, cluster.image, 3 - cluster.partition("orders").leader)) == 1


def test_directories_of_unfinished_deletions_are_removed() -> None:
    files = MemoryFiles()
    directory(files, deleted_directory("orders", 0, UNIQUE), b"g" * 16)
    assert moved(files, Cluster().image) == []
    for call in files.pending:
        call()
    assert files.list("") == []


def test_the_directory_of_a_partition_without_a_record_stays() -> None:
    """The partition has no replicas in the image, because its record is missing."""
    cluster = Cluster()
    topic_id = cluster.create("orders", 2)
    key = records.partition_key(cluster.image.topics["orders"].id_text, 1)
    cluster.apply([Write((), (Delete(key),))])
    files = MemoryFiles()
    directory(files, "orders-1", topic_id)
    assert moved(files, cluster.image) == []
    assert files.exists("orders-1")
