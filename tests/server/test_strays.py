"""What a crash in the middle of a deletion leaves behind is in nobody's way afterwards."""

from __future__ import annotations

from oncelog_server.log.checkpoints import encode_partition_metadata
from oncelog_server.storage.layout import deleted_directory, stray_directory
from oncelog_server.strays import put_strays_aside
from tests.server.cluster.clusters import Cluster
from tests.server.storage.memory_files import MemoryFiles

UNIQUE = b"u" * 16


def directory(files: MemoryFiles, name: str, topic_id: bytes | None) -> None:
    files.make_directory(name)
    if topic_id is not None:
        files.replace(f"{name}/partition.metadata", encode_partition_metadata(topic_id))


def test_partitions_of_no_topic_are_put_aside_and_the_others_stay() -> None:
    cluster = Cluster((1, 2))
    topic_id = cluster.create("orders", 2, 2)
    cluster.create("elsewhere")
    files = MemoryFiles()
    directory(files, "orders-0", topic_id)
    directory(files, "orders-1", None)
    directory(files, "orders-2", topic_id)
    directory(files, "gone-0", b"g" * 16)
    directory(files, "another-folder", None)
    files.replace("meta.properties", b"")
    moved = put_strays_aside(files, cluster.image, 1, lambda: UNIQUE)
    assert moved == [
        ("gone-0", stray_directory("gone", 0, UNIQUE)),
        ("orders-2", stray_directory("orders", 2, UNIQUE)),
    ]
    assert files.exists(f"gone-0.{UNIQUE.hex()}-stray/partition.metadata")
    assert {"orders-0", "orders-1", "another-folder", "meta.properties"} <= set(files.list(""))
    assert put_strays_aside(files, cluster.image, 1, lambda: UNIQUE) == []


def test_a_topic_that_came_back_has_another_id() -> None:
    cluster = Cluster()
    cluster.create("orders")
    files = MemoryFiles()
    directory(files, "orders-0", b"old topic id....")
    assert len(put_strays_aside(files, cluster.image, 1, lambda: UNIQUE)) == 1
    assert not files.exists("orders-0")


def test_a_partition_of_other_brokers_only_is_a_stray() -> None:
    cluster = Cluster((1, 2))
    topic_id = cluster.create("orders", 1, 1)
    files = MemoryFiles()
    directory(files, "orders-0", topic_id)
    assert len(put_strays_aside(files, cluster.image, 2, lambda: UNIQUE)) == 1


def test_what_was_on_its_way_out_is_removed() -> None:
    files = MemoryFiles()
    directory(files, deleted_directory("orders", 0, UNIQUE), b"g" * 16)
    assert put_strays_aside(files, Cluster().image, 1, lambda: UNIQUE) == []
    for call in files.pending:
        call()
    assert files.list("") == []
