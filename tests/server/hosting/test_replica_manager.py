"""Partitions of a real broker over several starts: a damaged log stays offline (S3)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server import background_tasks, environment
from oncelog_server.broker import Broker
from oncelog_server.clock import Clock, SystemClock
from oncelog_server.cluster.partition_additions import NewPartitions
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.environment import OsEnvironment
from oncelog_server.hosting.directory_removal import DELETED_WITHIN_MS
from oncelog_server.log.leader_epochs import LeaderEpochs
from oncelog_server.operating_system.os_files import OsFiles
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from oncelog_server.storage.files import Done, StorageError
from oncelog_server.storage.layout import CLEAN_SHUTDOWN
from oncelog_server.topic_partition import TopicPartition
from tests.harness.waiting import DEADLINE_S, turns_until, wait_until
from tests.server.log.driver import NOW_MS, batch

FIRST_SEGMENT = "topic-0/00000000000000000000.log"


# The number of steps of long work in one turn of the loop, in tests that count them.
FEW_STEPS = 10


class Counting(OsEnvironment):
    """An environment with slices of a fixed number of steps, however fast the machine is."""

    @property
    def steps_per_slice(self) -> int:
        return FEW_STEPS


class AheadClock(SystemClock):
    """A clock that a test moves forward."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@asynccontextmanager
async def life(
    path: Path, *, flush_on_ack: bool = False, clock: Clock | None = None
) -> AsyncIterator[Broker]:
    settings = Settings(
        log_dirs=(str(path),),
        listeners=("PLAINTEXT://127.0.0.1:0",),
        num_partitions=2,
        oncelog_flush_on_ack=flush_on_ack,
    )
    surroundings = Counting(settings.data_directory)
    surroundings.clock = clock or surroundings.clock
    broker = Broker(settings, surroundings)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


async def written(path: Path) -> None:
    """Create a topic with ten batches in each partition, durable on disk, without a clean stop."""
    async with life(path) as broker:
        await broker.metadata.missing_topics.create_one("topic")
        for index in range(2):
            partition = broker.partitions.require("topic", index)
            for _ in range(10):
                partition.append(batch(), now_ms=NOW_MS)
    forget(path, CLEAN_SHUTDOWN)


def forget(path: Path, pattern: str) -> None:
    for name in path.glob(pattern):
        name.unlink()


def directories(path: Path, topic: str) -> list[str]:
    return [found.name for found in path.glob(f"{topic}-*")]


def damage(path: Path, position: int) -> None:
    data = bytearray((path / FIRST_SEGMENT).read_bytes())
    data[position] ^= 0xFF
    (path / FIRST_SEGMENT).write_bytes(data)


async def test_S3d_a_corrupt_log_stays_offline_at_every_start_and_loses_nothing(
    tmp_path: Path,
) -> None:
    await written(tmp_path)
    damage(tmp_path, 70)
    size = (tmp_path / FIRST_SEGMENT).stat().st_size
    for _ in range(3):
        async with life(tmp_path) as broker:
            with pytest.raises(Refused) as refused:
                broker.partitions.require("topic", 0)
            assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert broker.partitions.require("topic", 1).log_end_offset == 10
            await broker.metadata.missing_topics.create_one("another")  # changes the metadata image
            assert broker.partitions.offline_reason(TopicPartition("topic", 0)) is not None
        assert not (tmp_path / CLEAN_SHUTDOWN).exists()
        assert (tmp_path / FIRST_SEGMENT).stat().st_size == size
    damage(tmp_path, 70)
    async with life(tmp_path) as broker:
        assert broker.partitions.require("topic", 0).log_end_offset == 10


async def test_with_flush_on_ack_records_of_a_killed_process_are_on_disk_before_they_are_served(
    tmp_path: Path,
) -> None:
    await written(tmp_path)
    forget(tmp_path, "*-checkpoint")
    async with life(tmp_path, flush_on_ack=True) as broker:
        for partition in broker.partitions:
            assert partition.recovery_point == partition.high_watermark == 10


async def test_many_new_partitions_are_opened_in_slices(tmp_path: Path) -> None:
    """The broker opens the partitions of a new topic in slices. If it opened 10,000 partitions at
    once, it would block the loop for twelve seconds. The client's request waits until all
    partitions are open. Later changes of the topic wait for this too."""
    count = 20 * FEW_STEPS
    async with life(tmp_path) as broker:
        new = asyncio.create_task(broker.metadata.create_topics([NewTopic("many", count)]))
        assert await most_at_once(broker, new) <= FEW_STEPS
        assert len(broker.partitions) == count
        more = asyncio.create_task(broker.metadata.create_topics([NewTopic("gone", count)]))
        await until_more_than(broker, count)
        assert await broker.metadata.delete_topics(["gone"]) == [None]
        await more
        assert len(broker.partitions) == count


async def test_another_change_of_the_metadata_does_not_open_all_waiting_partitions_in_one_turn(
    tmp_path: Path,
) -> None:
    """While thousands of partitions of another topic wait to be opened, the broker opens a new
    topic of one partition and removes the partition of a deleted topic."""
    count = 50 * FEW_STEPS
    async with life(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("short", 1)])
        many = asyncio.create_task(broker.metadata.create_topics([NewTopic("many", count)]))
        await until_more_than(broker, 1)
        other = asyncio.create_task(broker.metadata.create_topics([NewTopic("other", 1)]))
        assert await most_at_once(broker, other) <= FEW_STEPS
        assert broker.partitions.require("other", 0).log_end_offset == 0
        assert len(broker.partitions) < count
        gone = asyncio.create_task(broker.metadata.delete_topics(["short"]))
        # One turn of the loop at a time, so that the deletion is seen before `many` has all
        # partitions.
        async with asyncio.timeout(DEADLINE_S):
            while "short" in {  # noqa: ASYNC110
                found.topic_partition.topic for found in broker.partitions
            }:
                await asyncio.sleep(0)
        assert len(broker.partitions) < count
        await gone
        await many
        assert len(broker.partitions) == count + 1


async def test_a_topic_of_many_partitions_is_deleted_in_slices(
    tmp_path: Path,
) -> None:
    count = 20 * FEW_STEPS
    async with life(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("many", count)])
        gone = asyncio.create_task(broker.metadata.delete_topics(["many"]))
        assert await most_at_once(broker, gone) <= FEW_STEPS
        assert len(broker.partitions) == 0


async def test_directories_of_deleted_partitions_are_deleted_when_no_rename_is_left(
    tmp_path: Path,
) -> None:
    """The file system would delay renames on the loop during a deletion, so deletions come after
    all renames."""
    count = 5 * FEW_STEPS
    async with life(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("many", count), NewTopic("kept", 1)])
        gone = asyncio.create_task(broker.metadata.delete_topics(["many"]))
        async with asyncio.timeout(DEADLINE_S):
            while len(broker.partitions) > 1:
                assert len(directories(tmp_path, "many")) == count
                await asyncio.sleep(0)
        await gone
        assert all(name.endswith("-delete") for name in directories(tmp_path, "many"))
        await turns_until(lambda: not directories(tmp_path, "many"))
    assert directories(tmp_path, "kept") == ["kept-0"]


def deletions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the next broker adds each directory that it begins to delete."""
    begun: list[str] = []

    class Watched(OsFiles):
        def remove(self, paths: Sequence[str], done: Done | None = None) -> None:
            begun.extend(path for path in paths if path.endswith("-delete"))
            super().remove(paths, done)

    monkeypatch.setattr(environment, "OsFiles", Watched)
    return begun


async def test_directories_of_a_deleted_topic_are_deleted_after_the_last_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted = deletions(monkeypatch)
    async with life(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("many", 3)])
        await broker.metadata.delete_topics(["many"])
        await turns_until_idle(broker)
        assert sorted(name.split(".")[0] for name in deleted) == ["many-0", "many-1", "many-2"]


async def test_a_stop_during_changes_deletes_the_renamed_directories(tmp_path: Path) -> None:
    count = 5 * FEW_STEPS
    async with life(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("many", count)])
        gone = asyncio.create_task(broker.metadata.delete_topics(["many"]))
        while len(broker.partitions) == count:  # noqa: ASYNC110
            await asyncio.sleep(0)
        renamed = count - len(broker.partitions)
        assert 0 < renamed < count
        broker._replica_manager.stop()
        await gone
    assert len(directories(tmp_path, "many")) == count - renamed
    assert not [name for name in directories(tmp_path, "many") if name.endswith("-delete")]


async def test_a_topic_that_the_disk_refused_frees_its_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker deletes the topic's directories at once. Deleting the topic from the metadata
    store may fail on the full disk."""
    deleted = deletions(monkeypatch)
    async with life(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("refused", 2)])
        assert broker._replica_manager.give_up("refused")
        assert sorted(name.split(".")[0] for name in deleted) == ["refused-0", "refused-1"]


async def test_a_topic_that_is_given_up_takes_no_record_until_its_deletion(
    tmp_path: Path,
) -> None:
    """The store may delete it much later. A record in a partition that was added meanwhile would be
    lost."""
    async with life(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("refused", 1)])
        assert broker._replica_manager.give_up("refused")
        await broker.metadata.create_partitions([NewPartitions("refused", 2)])
        broker._refused_work._try_all()
        for index in range(2):
            assert broker.partitions.get(TopicPartition("refused", index)) is None
        await broker.metadata.delete_topics(["refused"])
        await broker.metadata.create_topics([NewTopic("refused", 2)])
        assert len(broker.partitions.of_topic("refused")) == 2


async def test_a_rename_that_the_disk_refused_is_retried_and_the_directory_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted = deletions(monkeypatch)
    async with life(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("kept", 1)])
        with monkeypatch.context() as full:

            def refuse(files: OsFiles, source: str, target: str) -> None:
                raise StorageError("rename", source, "No space left on device")

            full.setattr(OsFiles, "rename", refuse)
            await broker.metadata.delete_topics(["kept"])
            await turns_until_idle(broker)
        assert (deleted, directories(tmp_path, "kept")) == ([], ["kept-0"])
        broker._refused_work._try_all()
        (name,) = deleted
        assert name.startswith("kept-0.")
    assert directories(tmp_path, "kept") == []


async def test_a_new_topic_gets_the_directory_of_a_deleted_one_when_the_disk_renames_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk refuses to rename the directories of a deleted topic. A topic of the same name is
    refused. It can be created as soon as the disk has space, before the next retry of the rename
    (seed 71276 of the simulation)."""
    rename = OsFiles.rename

    def refuse(files: OsFiles, source: str, target: str) -> None:
        if target.endswith("-delete"):
            raise StorageError("rename", source, "No space left on device")
        rename(files, source, target)

    async with life(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("again", 2)])
        with monkeypatch.context() as full:
            full.setattr(OsFiles, "rename", refuse)
            await broker.metadata.delete_topics(["again"])
            await turns_until_idle(broker)
            (refused,) = await broker.metadata.create_topics([NewTopic("again", 2)])
            assert isinstance(refused, Refused)
            assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
        (created,) = await broker.metadata.create_topics([NewTopic("again", 2)])
        assert not isinstance(created, Refused)
        assert broker.partitions.offline() == {}
        assert len(broker.partitions) == 2
        broker._refused_work._try_all()
        assert broker._refused_work.left("remove again-0") == 0


async def test_a_deletion_is_remembered_until_its_renames_cannot_be_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint that a deletion waits for also makes the renames of the directories durable.
    If a full disk refuses the checkpoint, a power failure may restore the directories, and the next
    start must know that the topic was deleted (seed 76800 of the simulation)."""
    async with life(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("done", 1), NewTopic("refused", 1)])
        await broker.metadata.delete_topics(["done"])
        assert not broker.metadata.image.deletions
        original = OsFiles.open

        def refuse(files: OsFiles, path: str, *, create: bool = False) -> Any:
            if create and "checkpoint" in path:
                raise StorageError("create", path, "No space left on device")
            return original(files, path, create=create)

        with monkeypatch.context() as full:
            full.setattr(OsFiles, "open", refuse)
            await broker.metadata.delete_topics(["refused"])
        (deletion,) = broker.metadata.image.deletions.values()
        assert deletion.name == "refused"
    async with life(tmp_path) as broker:
        assert not broker.metadata.image.deletions


async def turns_until_idle(broker: Broker) -> None:
    """Let the loop turn until all work that is done in slices has ended."""
    while not broker._slices.is_idle:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_directories_of_deleted_partitions_do_not_wait_for_ever_for_other_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If two clients create and delete topics in turns, there is always a change in progress."""
    deleted = deletions(monkeypatch)
    count = 50 * FEW_STEPS
    clock = AheadClock()
    async with life(tmp_path, clock=clock) as broker:
        await broker.metadata.create_topics([NewTopic("short", 1)])
        many = asyncio.create_task(broker.metadata.create_topics([NewTopic("many", count)]))
        await until_more_than(broker, 1)
        gone = asyncio.create_task(broker.metadata.delete_topics(["short"]))
        while broker.partitions.get(TopicPartition("short", 0)) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert deleted == []
        (renamed,) = directories(tmp_path, "short")
        clock.ahead_ms = DELETED_WITHIN_MS
        await until_more_than(broker, len(broker.partitions))
        assert deleted == [renamed]
        assert len(broker.partitions) < count
        await gone
        await many


async def test_settings_changed_while_partitions_wait_to_be_opened_apply_to_all_of_them(
    tmp_path: Path,
) -> None:
    count = 20 * FEW_STEPS
    async with life(tmp_path) as broker:
        new = asyncio.create_task(broker.metadata.create_topics([NewTopic("many", count)]))
        await until_more_than(broker, 0)
        assert len(broker.partitions) < count
        await broker.metadata.alter_topic_settings("many", lambda own: {"retention.ms": "4321"})
        await new
        await broker._replica_manager.settled(["many"])
        assert {partition.config.retention_ms for partition in broker.partitions} == {4321}


async def most_at_once(broker: Broker, work: asyncio.Task[Any]) -> int:
    """Return the largest change of the number of partitions in one turn of the loop, until `work`
    is done."""
    most = 0
    async with asyncio.timeout(DEADLINE_S):
        while not work.done():
            before = len(broker.partitions)
            await asyncio.sleep(0)
            most = max(most, abs(len(broker.partitions) - before))
    return most


async def until_more_than(broker: Broker, count: int) -> None:
    # One turn of the loop at a time, because the broker opens some partitions in each turn.
    async with asyncio.timeout(DEADLINE_S):
        while len(broker.partitions) <= count:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_partitions_not_opened_before_a_stop_are_open_after_the_next_start(
    tmp_path: Path,
) -> None:
    count = 4 * FEW_STEPS
    async with life(tmp_path) as broker:
        new = asyncio.create_task(broker.metadata.create_topics([NewTopic("many", count)]))
        await until_more_than(broker, 0)
        broker._replica_manager.stop()
        await new
        assert len(broker.partitions) < count
    async with life(tmp_path) as broker:
        assert len(broker.partitions) == count
        assert not broker.partitions.offline()


def epochs_of(path: Path) -> dict[str, tuple[int, int]]:
    """Return the inode of the leader epoch checkpoint and the latest epoch in it, by partition.
    Without a file, the inode is -1."""
    found = {}
    for folder in path.glob("topic-*"):
        file = folder / "leader-epoch-checkpoint"
        data = file.read_bytes() if file.exists() else b""
        inode = file.stat().st_ino if data else -1
        found[folder.name] = inode, LeaderEpochs.decode(data).latest_epoch
    return found


async def test_starts_after_clean_stops_write_the_epoch_of_one_idle_partition_at_most(
    tmp_path: Path,
) -> None:
    """A start writes the newest leader epoch to the checkpoint of one partition, because recovery
    needs this epoch if the metadata is lost. The start writes nothing of the other partitions."""
    async with life(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("topic", 20, 1)])
        for index in range(20):
            broker.partitions.require("topic", index).append(batch(), now_ms=NOW_MS)
    for _ in range(2):
        before = epochs_of(tmp_path)
        async with life(tmp_path) as broker:
            newest = broker.partitions.require("topic", 0).leader_epoch
        after = epochs_of(tmp_path)
        assert len(after.items() - before.items()) <= 1
        assert max(epoch for _, epoch in after.values()) == newest


async def test_the_first_record_of_a_leader_epoch_writes_the_epoch_to_the_checkpoint(
    tmp_path: Path,
) -> None:
    async with life(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("topic", 3, 1)])
    for number in range(2):
        async with life(tmp_path) as broker:
            for index in range(3):
                partition = broker.partitions.require("topic", index)
                partition.append(batch(), now_ms=NOW_MS)
                assert partition.end_offset_for_epoch(partition.leader_epoch) == (
                    partition.leader_epoch, number + 1
                )  # fmt: skip
                assert epochs_of(tmp_path)[f"topic-{index}"][1] == partition.leader_epoch


async def test_each_topic_has_its_own_settings(
    tmp_path: Path,
) -> None:
    async with life(tmp_path) as broker:
        settings = [{}, {"retention.ms": "1"}, {"retention.ms": "2"}, {"retention.ms": "1"}]
        topics = [NewTopic(f"t{n}", 1, 1, settings=setting) for n, setting in enumerate(settings)]
        await broker.metadata.create_topics(topics)
    async with life(tmp_path) as broker:
        logs = [broker.partitions.require(f"t{n}", 0)._log for n in range(4)]
        kept = [log.config.retention_ms for log in logs]
    assert kept == [604_800_000, 1, 2, 1]


async def test_a_partition_that_the_broker_leads_while_it_is_suspended_serves_after_that(
    tmp_path: Path,
) -> None:
    async with life(tmp_path) as broker:
        broker.partitions.suspend()
        await broker.metadata.missing_topics.create_one("topic")
        partition = broker.partitions.require("topic", 0)
        with pytest.raises(Refused) as refused:
            partition.append(batch(), now_ms=NOW_MS)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        broker.partitions.resume(lambda _: True)
        assert partition.append(batch(), now_ms=NOW_MS).base_offset == 0


async def test_the_mark_of_a_clean_stop_does_not_wait_for_the_deletion_of_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor kills a broker that stops too slowly. The next start would then recover all
    logs, although all data was synced."""
    scandir = os.scandir
    marked: list[bool] = []

    def held(path: str) -> Any:
        if path.endswith("-delete"):
            with suppress(AssertionError):
                wait_until((tmp_path / CLEAN_SHUTDOWN).exists, "the mark", 5)
            marked.append((tmp_path / CLEAN_SHUTDOWN).exists())
        return scandir(path)

    monkeypatch.setattr(os, "scandir", held)
    async with life(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("gone", 3)])
        await broker.metadata.delete_topics(["gone"])
        await turns_until_idle(broker)
    assert all(marked)
    assert marked


async def test_a_stop_with_checkpoints_that_a_defect_has_ended_leaves_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(*_: object) -> bytes:
        raise RuntimeError("a defect")

    async with life(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("many", 3 * FEW_STEPS)])
        await turns_until_idle(broker)
        monkeypatch.setattr(background_tasks, "encode_closed_logs", defect)
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
