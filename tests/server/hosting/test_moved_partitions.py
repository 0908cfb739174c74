"""A broker removes the partitions that have moved to other brokers, and deletes their
directories."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from oncelog_protocol.errors import ErrorCode
from oncelog_server.broker import Broker
from oncelog_server.cluster import records
from oncelog_server.cluster.delta import ImageDelta, PartitionChange
from oncelog_server.cluster.records import PartitionRecord
from oncelog_server.cluster.store import Put
from oncelog_server.durable_logs import end_of
from oncelog_server.log.checkpoints import decode_offsets, encode_lines, offset_line
from oncelog_server.operating_system.os_files import OsFiles
from oncelog_server.partition.follower_log import FollowerLog
from oncelog_server.refusal import Refused
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import CLEANER_CHECKPOINT
from oncelog_server.topic_partition import TopicPartition
from tests.server.hosting.test_replica_manager import (
    damage,
    directories,
    life,
    turns_until_idle,
    written,
)
from tests.server.log.driver import NOW_MS, batch

MOVED = TopicPartition("topic", 0)


async def move(broker: Broker, *replicas: int) -> None:
    """Give the partition these replicas. Return when the broker has made the change."""
    before = broker.metadata.image.topics["topic"].partitions[0]
    leader = replicas[0]
    record = PartitionRecord(
        replicas,
        replicas,
        leader,
        before.leader_epoch + 1,
        isr_epochs=before.isr_epochs * len(replicas),
    )
    key = records.partition_key(broker.metadata.image.topics["topic"].id_text, 0)
    result = await broker.metadata.store.txn((), [Put(key, records.encode(record))])
    await broker.metadata.follower.reached(result.revision)
    await turns_until_idle(broker)


async def test_a_partition_that_has_moved_is_removed_with_its_directory(tmp_path: Path) -> None:
    await written(tmp_path)
    async with life(tmp_path) as broker:
        await move(broker, 2)
        assert broker.partitions.get(MOVED) is None
        with pytest.raises(Refused) as refused:
            broker.partitions.require(*MOVED)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert directories(tmp_path, "topic") == ["topic-1"]
    async with life(tmp_path) as broker:
        assert len(broker.partitions) == 1


async def test_a_partition_that_comes_back_begins_empty(tmp_path: Path) -> None:
    await written(tmp_path)
    async with life(tmp_path) as broker:
        await move(broker, 2)
        await move(broker, 2, 1)
        partition = broker.partitions.require(*MOVED)
        assert (partition.log_end_offset, partition.high_watermark) == (0, 0)
        assert (partition.is_leader, partition.leader_id) == (False, 2)
        await move(broker, 2)
    assert directories(tmp_path, "topic") == ["topic-1"]


async def test_a_replica_that_is_being_removed_serves_until_the_move_is_complete(
    tmp_path: Path,
) -> None:
    await written(tmp_path)
    async with life(tmp_path) as broker:
        await move(broker, 1, 2)
        assert broker.partitions.require(*MOVED).log_end_offset == 10
        assert broker.partitions.require(*MOVED).is_leader
    assert sorted(directories(tmp_path, "topic")) == ["topic-0", "topic-1"]


async def test_a_corrupt_log_is_not_offline_after_its_move_and_is_put_aside(
    tmp_path: Path,
) -> None:
    """An operator moves partitions away from a failed disk. The directory is put aside and not
    deleted, because its records may be the last ones."""
    await written(tmp_path)
    damage(tmp_path, 70)
    async with life(tmp_path) as broker:
        assert broker.partitions.offline_reason(MOVED) is not None
        await move(broker, 2)
        assert broker.partitions.offline_reason(MOVED) is None
    (stray, kept) = sorted(directories(tmp_path, "topic"))
    assert kept == "topic-1"
    assert stray.startswith("topic-0.")
    assert stray.endswith("-stray")


async def test_a_corrupt_log_that_comes_back_begins_empty(tmp_path: Path) -> None:
    """Otherwise the corrupt log would count as a new and valid one: the replica would fetch only
    what follows, join the ISR and lead."""
    await written(tmp_path)
    damage(tmp_path, 70)
    async with life(tmp_path) as broker:
        await move(broker, 2)
        await move(broker, 2, 1)
        partition = broker.partitions.require(*MOVED)
        assert (partition.log_end_offset, partition.high_watermark) == (0, 0)
    assert len(directories(tmp_path, "topic")) == 3


async def test_a_corrupt_log_comes_back_only_after_it_is_put_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = OsFiles.rename

    def refuse(files: OsFiles, source: str, target: str) -> None:
        if target.endswith("-stray"):
            raise StorageError("rename", source, "No space left on device")
        rename(files, source, target)

    await written(tmp_path)
    damage(tmp_path, 70)
    async with life(tmp_path) as broker:
        with monkeypatch.context() as full:
            full.setattr(OsFiles, "rename", refuse)
            await move(broker, 2)
            await move(broker, 2, 1)
            assert "No space left on device" in (broker.partitions.offline_reason(MOVED) or "")
        broker._refused_work._try_all()
        await turns_until_idle(broker)
        assert broker.partitions.require(*MOVED).log_end_offset == 0
    assert len(directories(tmp_path, "topic")) == 3


def compacted_up_to(path: Path, offsets: dict[tuple[str, int], int]) -> None:
    """Write the cleaner's checkpoint of the last stop."""
    (path / CLEANER_CHECKPOINT).write_bytes(
        encode_lines(map(offset_line, offsets, offsets.values()))
    )


def compacted(path: Path) -> dict[tuple[str, int], int]:
    return decode_offsets((path / CLEANER_CHECKPOINT).read_bytes())


async def test_the_compacted_part_of_a_log_is_that_of_the_last_stop(tmp_path: Path) -> None:
    """An offset above the end of a log is ignored."""
    await written(tmp_path)
    compacted_up_to(tmp_path, {("topic", 0): 5, ("topic", 1): 11})
    async with life(tmp_path) as broker:
        assert broker.partitions.require("topic", 0).clean_part.end_offset == 5
        assert broker.partitions.require("topic", 1).clean_part.end_offset is None
    assert compacted(tmp_path) == {("topic", 0): 5}


async def test_a_replica_that_comes_back_has_no_compacted_part(tmp_path: Path) -> None:
    await written(tmp_path)
    compacted_up_to(tmp_path, {("topic", 0): 5, ("topic", 1): 5})
    async with life(tmp_path) as broker:
        await move(broker, 2)
        await move(broker, 2, 1)
        partition = broker.partitions.require(*MOVED)
        FollowerLog(partition).append(batch(7), NOW_MS)
        assert await broker._background_tasks.last_checkpoint() is None
        assert compacted(tmp_path) == {("topic", 1): 5}
    async with life(tmp_path) as broker:
        assert broker.partitions.require(*MOVED).log_end_offset == 7
    assert compacted(tmp_path) == {("topic", 1): 5}


async def test_a_replica_is_opened_after_the_checkpoint_has_forgotten_an_earlier_one(
    tmp_path: Path,
) -> None:
    """The removal of the earlier replica may still be queued. A broker with its metadata elsewhere
    writes the checkpoint together with the revision."""
    await written(tmp_path)
    compacted_up_to(tmp_path, {("topic", 0): 5, ("topic", 1): 5})
    async with life(tmp_path) as broker:
        image = broker.metadata.image
        topic = image.topics["topic"]
        moved = structs.replace(topic.partitions[0], replicas=(2,))
        change = PartitionChange(topic, topic.partitions[0], moved)
        broker._replica_manager._due.hold("topic")
        delta = ImageDelta(partitions=(change,))
        broker._replica_manager.follow(image, image, delta)
        broker._background_tasks.follow(image, image, delta)
        assert broker.partitions.get(MOVED) is not None
        kept = broker._background_tasks.keep_revision(image)
        assert await end_of(kept, otherwise=None) is None
        assert compacted(tmp_path) == {("topic", 1): 5}
        assert list(broker.directory.recovery_points()) == [("topic", 1)]


async def test_a_topic_is_created_after_the_checkpoint_has_forgotten_its_predecessor(
    tmp_path: Path,
) -> None:
    """After a kill, the next start would otherwise take the offset of the deleted topic."""
    await written(tmp_path)
    compacted_up_to(tmp_path, {("topic", 0): 5, ("gone", 0): 5})
    async with life(tmp_path) as broker:
        await broker.metadata.missing_topics.create_one("gone")
        assert compacted(tmp_path) == {("topic", 0): 5}, "no topic had this name at the start"
        assert await broker.metadata.delete_topics(["topic"]) == [None]
        await broker.metadata.missing_topics.create_one("topic")
        assert compacted(tmp_path) == {}
