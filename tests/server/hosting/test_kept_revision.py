"""A new replica of a cluster is opened when the revision that made it is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from oncelog_server.broker import Broker
from oncelog_server.cluster import records
from oncelog_server.cluster.partition_additions import NewPartitions
from oncelog_server.cluster.records import PartitionRecord
from oncelog_server.cluster.store import Put
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.operating_system.os_files import OsFiles
from oncelog_server.refusal import Refused
from oncelog_server.storage.files import Done, File, StorageError
from oncelog_server.storage.layout import CLEAN_SHUTDOWN, CLUSTER_REVISION
from oncelog_server.topic_partition import TopicPartition
from tests.server.hosting.test_replica_manager import directories
from tests.server.log.driver import NOW_MS, batch
from tests.server.metadata.brokers import until
from tests.server.metadata.memory_store import MemoryStore
from tests.server.metadata.test_deletion_records import Machine
from tests.server.test_cluster_start import Elsewhere, refused, settings_of, started, store


class Disk:
    """A disk that holds the syncs of the revision, or refuses its writes."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self.holds = False
        self._held: list[Callable[[], None]] = []
        sync, open_ = OsFiles.sync, OsFiles.open

        def held_sync(files: OsFiles, those: Sequence[File], done: Done) -> None:
            if self.holds and any(file.path.startswith(CLUSTER_REVISION) for file in those):
                self._held.append(partial(sync, files, those, done))
            else:
                sync(files, those, done)

        def refused_open(files: OsFiles, path: str, *, create: bool = False) -> File:
            if self.is_full and path.startswith(CLUSTER_REVISION):
                raise StorageError("create", path, "No space left on device")
            return open_(files, path, create=create)

        patch.setattr(OsFiles, "sync", held_sync)
        patch.setattr(OsFiles, "open", refused_open)

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def go_on(self) -> None:
        self.holds = False
        held, self._held = self._held, []
        for sync in held:
            sync()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def seen(path: Path) -> int:
    return int((path / CLUSTER_REVISION).read_text())


def copy_of(found: MemoryStore) -> MemoryStore:
    """Return the store as an operator restores it: at its present revision, without the keys that
    have a lease."""
    older = store()
    older.entries.update(
        {key: entry for key, entry in found.entries.items() if not key.startswith(records.LEASED)}
    )
    older.feed.revision = found.feed.revision
    return older


async def move(broker: Broker, topic: str, *replicas: int) -> int:
    """Give the first partition these replicas. Return the revision of the change."""
    before = broker.metadata.image.topics[topic]
    old = before.partitions[0]
    record = PartitionRecord(
        replicas,
        replicas,
        replicas[0],
        old.leader_epoch + 1,
        isr_epochs=old.isr_epochs * len(replicas),
    )
    key = records.partition_key(before.id_text, 0)
    result = await broker.metadata.store.txn((), [Put(key, records.encode(record))])
    await broker.metadata.follower.reached(result.revision)
    return result.revision


@pytest.mark.parametrize("growth", ["topic", "partition"])
async def test_b23_a_killed_broker_has_noted_its_new_folders(tmp_path: Path, growth: str) -> None:
    """All brokers are killed before the next checkpoint, and etcd comes back from an older copy.
    Before this rule, the start put the folder aside, with its records."""
    found = store()
    async with started(tmp_path / "1", found) as broker:
        await broker.metadata.create_topics([NewTopic("old")])
        older = copy_of(found)
        if growth == "topic":
            await broker.metadata.create_topics([NewTopic("new")])
        else:
            await broker.metadata.create_partitions([NewPartitions("old", 2)])
        copytree(tmp_path / "1", tmp_path / "killed")
    reason = await refused(tmp_path / "killed", older)
    assert f"is at revision {older.feed.revision}, and" in reason


async def test_no_new_folder_is_made_before_the_revision_is_durable(
    tmp_path: Path, disk: Disk
) -> None:
    found = store()
    async with started(tmp_path, found) as broker:
        await broker.metadata.create_topics([NewTopic("old")])
        disk.holds = True
        creation = asyncio.create_task(broker.metadata.create_topics([NewTopic("new")]))
        await until(lambda: disk.is_holding)
        # The changes of other topics do not wait.
        await move(broker, "old", 2, 1)
        old = broker.partitions.require("old", 0)
        await until(lambda: old.leader_id == 2)
        assert directories(tmp_path, "new") == []
        assert not creation.done()
        disk.go_on()
        assert not isinstance((await creation)[0], Refused)
        assert directories(tmp_path, "new") == ["new-0"]


async def test_a_topic_that_is_deleted_while_it_waits_leaves_nothing(
    tmp_path: Path, disk: Disk
) -> None:
    async with started(tmp_path, store()) as broker:
        disk.holds = True
        creation = asyncio.create_task(broker.metadata.create_topics([NewTopic("new")]))
        await until(lambda: disk.is_holding)
        deletion = asyncio.create_task(broker.metadata.delete_topics(["new"]))
        await until(lambda: "new" not in broker.metadata.image.topics)
        disk.go_on()
        await asyncio.gather(creation, deletion)
        assert directories(tmp_path, "new") == []
        assert not isinstance((await broker.metadata.create_topics([NewTopic("new")]))[0], Refused)


async def test_a_new_topic_gets_no_folder_while_the_disk_refuses_the_revision(
    tmp_path: Path, disk: Disk
) -> None:
    """The store of this cluster may have other brokers, so the topic stays (KIP-112)."""
    async with started(tmp_path, store()) as broker:
        before = seen(tmp_path)
        disk.is_full = True
        (outcome,) = await broker.metadata.create_topics([NewTopic("new")])
        assert not isinstance(outcome, Refused)
        name = TopicPartition("new", 0)
        assert broker.partitions.offline_reason(name) is not None
        assert (directories(tmp_path, "new"), seen(tmp_path)) == ([], before)
        disk.is_full = False

        def is_opened() -> bool:
            broker._refused_work._try_all()
            return broker.partitions.get(name) is not None

        await until(is_opened)
        assert seen(tmp_path) > before


async def test_a_replica_that_the_disk_refused_is_opened_when_the_revision_is_durable(
    tmp_path: Path, disk: Disk
) -> None:
    """A move from another broker gives this broker the replica. Unlike a new topic, it is not
    deleted when the disk refuses it."""
    async with started(tmp_path, store()) as broker:
        await broker.metadata.create_topics([NewTopic("moved")])
        await move(broker, "moved", 2)
        await until(lambda: not directories(tmp_path, "moved"))
        disk.is_full = True
        moved_at = await move(broker, "moved", 2, 1)
        name = TopicPartition("moved", 0)
        await until(lambda: broker.partitions.offline_reason(name) is not None)
        broker._refused_work._try_all()
        assert directories(tmp_path, "moved") == []
        disk.is_full = False

        def is_opened() -> bool:
            broker._refused_work._try_all()
            return broker.partitions.get(name) is not None

        await until(is_opened)
        assert directories(tmp_path, "moved") == ["moved-0"]
        assert seen(tmp_path) >= moved_at


@pytest.mark.parametrize(
    "elsewhere",
    [{}, {"oncelog_etcd_endpoints": (), "first_broker": "first"}],
    ids=["etcd", "another broker of the machine"],
)
async def test_a_checkpoint_notes_changes_without_a_new_replica(
    tmp_path: Path, elsewhere: dict[str, Any]
) -> None:
    settings = replace(settings_of(tmp_path, 1), **elsewhere)
    broker = Broker(settings, Elsewhere(tmp_path, store()))
    await broker.start()
    try:
        await broker.metadata.create_topics([NewTopic("t")])
        await until(lambda: seen(tmp_path) == broker.metadata.image.revision)
        await broker.metadata.alter_topic_settings("t", lambda own: {**own, "retention.ms": "1"})
        assert seen(tmp_path) < broker.metadata.image.revision
        assert await broker._background_tasks.last_checkpoint() is None
        assert seen(tmp_path) == broker.metadata.image.revision
    finally:
        await broker.stop()


async def test_a_replica_that_comes_back_has_no_checkpoint_of_its_former_log(
    tmp_path: Path,
) -> None:
    """A start after a kill would otherwise refuse the new log: it ends below the recovery point of
    the former one."""
    found = store()
    async with started(tmp_path / "1", found) as broker:
        await broker.metadata.create_topics([NewTopic("moved")])
        partition = broker.partitions.require("moved", 0)
        for _ in range(10):
            partition.append(batch(), now_ms=NOW_MS)
        partition.synced()
        assert await broker._background_tasks.last_checkpoint() is None
        await move(broker, "moved", 2)
        await until(lambda: broker.partitions.get(partition.topic_partition) is None)
        await move(broker, "moved", 2, 1)
        await until(lambda: broker.partitions.get(partition.topic_partition) is not None)
        copytree(tmp_path / "1", tmp_path / "killed")
        older = copy_of(found)
    (tmp_path / "killed" / CLEAN_SHUTDOWN).unlink(missing_ok=True)
    async with started(tmp_path / "killed", older) as broker:
        assert broker.partitions.offline() == {}


async def test_the_first_of_several_brokers_has_no_checkpoint_of_a_former_log_either(
    tmp_path: Path,
) -> None:
    """Its data directory has the metadata, and so no recorded revision."""
    machine = Machine(tmp_path)
    await machine.start(1, 2)
    first = machine.brokers[1]
    try:
        await first.metadata.create_topics([NewTopic("moved", assignments=((0, (1,)),))])
        await until(lambda: first.partitions.get(TopicPartition("moved", 0)) is not None)
        partition = first.partitions.require("moved", 0)
        await until(lambda: partition.is_leader)
        partition.append(batch(10), now_ms=NOW_MS)
        partition.synced()
        assert await first._background_tasks.last_checkpoint() is None
        await move(first, "moved", 2)
        await until(lambda: first.partitions.get(partition.topic_partition) is None)
        await move(first, "moved", 2, 1)
        await until(lambda: first.partitions.get(partition.topic_partition) is not None)
        assert ("moved", 0) not in first.directory.recovery_points()
        assert not (tmp_path / CLUSTER_REVISION).exists()
    finally:
        await machine.stop(1, 2)
