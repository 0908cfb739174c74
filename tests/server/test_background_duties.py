"""The broker's periodic duties, with a manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, TypeVar

import structlog
from msgspec.structs import replace

from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.background_tasks import (
    ABORTS_PER_TURN,
    FIRST_RETENTION_MS,
    FLUSH_CHECK_MS,
    BackgroundTasks,
)
from oncelog_server.cluster.topics import CreatedTopic, NewTopic
from oncelog_server.data_directory.lock import DataDirectory, checkpoints_of
from oncelog_server.log.checkpoints import decode_offsets
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.operating_system.os_files import OsFiles
from oncelog_server.partition.registry import Partitions
from oncelog_server.refused_work import RETRY_MS
from oncelog_server.settings.model import Settings
from oncelog_server.slices import SMALL, Slices, at_its_end
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import HIGH_WATERMARK_CHECKPOINT, TEMPORARY_SUFFIX
from oncelog_server.topic_partition import TopicPartition
from tests.server.between_steps import Calls
from tests.server.log.driver import flush
from tests.server.metadata.memory_store import MemoryStore
from tests.server.partition.partitions import mark
from tests.server.transaction.world import A0, A1, B0, World
from tests.server.transaction.world_clock import WorldClock

T = TypeVar("T")


class Disk(Executor):
    """An executor that runs its work at once or, if `held`, in `go_on`."""

    def __init__(self) -> None:
        self.held = False
        self._waiting: list[Callable[[], object]] = []

    def submit(self, work: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        outcome: Future[T] = Future()
        self._waiting.append(lambda: outcome.set_result(work(*args, **kwargs)))
        if not self.held:
            self.go_on()
        return outcome

    def go_on(self) -> None:
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            work()


class Kept:
    """A broker in memory (`World`) with background duties. Its checkpoints are real files."""

    def __init__(self, path: Path, settings: Settings | None = None) -> None:
        self.world = world = World()
        self.partitions = Partitions()
        for partition in world.partitions.values():
            self.partitions.add(partition)
        self.directory = DataDirectory(str(path))
        self.disk = Disk()
        self.background_tasks = BackgroundTasks(
            settings or Settings(),
            WorldClock(world),
            world.timers,
            self.partitions,
            world.transactions,
            world.flush,
            self.directory,
            OsFiles(str(path), executor=self.disk, call_on_loop=lambda call: call()),
            Slices(world.timers, world.wall, steps_per_slice=10**6),
        )
        self.background_tasks.start()


def write(world: World, name: TopicPartition, count: int = 1, *, producer_id: int = -1) -> None:
    for sequence in range(count):
        data = build_batch(
            [NewRecord(world.wall(), b"k", b"v" * 100)],
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence if producer_id >= 0 else -1,
        )
        world.partitions[name].append(data, now_ms=world.wall())


def test_T1_an_overdue_transaction_is_aborted_at_the_next_scan_after_its_timeout(
    tmp_path: Path,
) -> None:
    kept = Kept(tmp_path)
    producer = kept.world.producer(timeout_ms=5_500)
    kept.world.produce(producer, A0, 0)
    kept.world.timers.advance(5_400)
    assert kept.world.partitions[A0].last_stable_offset == 0
    kept.world.timers.advance(1_100)
    assert kept.world.partitions[A0].last_stable_offset == 2


def test_T9_many_overdue_transactions_are_aborted_with_other_work_in_between(
    tmp_path: Path,
) -> None:
    kept = Kept(tmp_path)
    world = kept.world
    for number in range(2 * ABORTS_PER_TURN + 5):
        name = f"t{number}"
        world.add(world.producer(name, timeout_ms=1_000), A0, transactional_id=name)
    others: list[int] = []
    before = world.partitions[A0].log_end_offset
    calls = world.timers.soon

    def other() -> None:
        others.append(world.partitions[A0].log_end_offset - before)
        if len(others) < 10:
            calls.append(other)

    calls.append(other)
    world.timers.advance(3_000)
    assert ABORTS_PER_TURN in others
    assert others[-1] == 2 * ABORTS_PER_TURN + 5


def test_a_failing_duty_does_not_stop_other_duties_or_its_own_next_run(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    world = kept.world
    producer = world.producer(timeout_ms=1_000)
    world.produce(producer, A0, 0)
    failing = world.partitions[A1]
    config = replace(failing.config, flush_ms=None)  # the flush fails
    failing._log.config = config
    write(world, A1)
    world.timers.advance(5 * FLUSH_CHECK_MS)
    assert world.partitions[A0].last_stable_offset == 2


def test_a_log_is_flushed_after_flush_ms(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    partition = kept.world.partitions[B0]
    partition.reconfigure(replace(partition.config, flush_ms=2_500))
    write(kept.world, B0)
    kept.world.timers.advance(2_000)
    assert not kept.world.files.pending
    kept.world.timers.advance(FLUSH_CHECK_MS)
    assert len(kept.world.files.pending) == 1
    kept.world.timers.advance(FLUSH_CHECK_MS)
    assert len(kept.world.files.pending) == 1, "while a flush is in progress, no other flush begins"
    kept.world.files.settle()
    assert partition.recovery_point == 1


def test_a_log_with_a_storage_error_does_not_stop_retention_of_other_logs(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    world = kept.world
    for name in (A0, A1, B0):
        log = world.partitions[name]._log
        log.reconfigure(replace(log.config, segment_bytes=400, retention_bytes=500))
        write(world, name, 20)
    world.partitions[A0].fail("fsync")
    world.files.fail_append(match="a-1/0")
    world.timers.advance(FIRST_RETENTION_MS)
    assert world.partitions[A0].log_start_offset == 0
    assert world.partitions[B0].log_start_offset > 0


def test_retention_leaves_a_partition_that_was_created_again_alone(tmp_path: Path) -> None:
    """The files of the new partition have the names of the deleted partition's files."""
    kept = Kept(tmp_path)
    world = kept.world
    names = (A0, A1)
    for name in names:
        log = world.partitions[name]._log
        log.reconfigure(replace(log.config, segment_bytes=400, retention_bytes=500))
        write(world, name, 20)
    first, second = (world.partitions[name] for name in names)
    rename = world.files.rename

    def renaming(source: str, target: str) -> None:
        if kept.partitions.get(A1) is second:
            kept.partitions.remove(A1)
        rename(source, target)

    world.files.rename = renaming  # type: ignore[method-assign]  # another request
    world.timers.advance(FIRST_RETENTION_MS)
    assert first.log_start_offset > 0
    assert second.log_start_offset == 0


def test_d6_retention_that_the_disk_refuses_is_applied_a_second_after_there_is_space(
    tmp_path: Path,
) -> None:
    """The disk refuses to rename a deleted segment. It has space again minutes before the next
    check of retention."""
    kept = Kept(tmp_path)
    world = kept.world
    for name in (A0, A1):
        log = world.partitions[name]._log
        log.reconfigure(replace(log.config, segment_bytes=400, retention_bytes=500))
        write(world, name, 20)
    rename = world.files.rename

    def refusing(source: str, target: str) -> None:
        if source.startswith("a-1/") and (source + target).count(".deleted"):
            raise StorageError("rename", source, "No space left on device")
        rename(source, target)

    world.files.rename = refusing  # type: ignore[method-assign]  # a fault
    with structlog.testing.capture_logs() as logged:
        world.timers.advance(FIRST_RETENTION_MS + 10_000)
        segments = len(world.partitions[A1]._log.segments)
        assert len(world.partitions[A0]._log.segments) < segments
        world.files.rename = rename  # type: ignore[method-assign]  # a fault
        world.timers.advance(RETRY_MS)
    assert len(world.partitions[A1]._log.segments) == len(world.partitions[A0]._log.segments)
    assert [event["event"] for event in logged if event.get("partition") == str(A1)] == [
        "disk refused",
        "segments deleted by retention",
        "disk takes it again",
    ]


def test_producers_without_a_batch_for_a_day_are_forgotten(
    tmp_path: Path,
) -> None:
    kept = Kept(tmp_path)
    world = kept.world
    write(world, A0, producer_id=5)
    mark(world.partitions[B0], 6)
    world.timers.now_ms += 86_400_000
    write(world, A1, producer_id=5)
    world.timers.advance(Settings().producer_id_expiration_check_interval_ms)
    assert [len(world.partitions[name]._log.producers) for name in (A0, A1, B0)] == [0, 1, 0]


def test_x5_expired_ids_are_removed_in_slices_with_other_work_in_between(tmp_path: Path) -> None:
    sweep_ms = 5_000
    settings = Settings(
        transactional_id_expiration_ms=1_000_000,
        transaction_remove_expired_transaction_cleanup_interval_ms=sweep_ms,
    )
    kept = Kept(tmp_path, settings)
    world = kept.world
    for number in range(500):
        world.init(f"t{number}")
    world.timers.now_ms += 1_000_000
    world.init("fresh")
    ((_, shard),) = world.transactions.runtime.shards()
    left: list[int] = []

    class Turns(list[Any]):
        """The scheduled calls of the loop. `left` gets the number of remaining ids whenever a call
        is added."""

        def append(self, callback: Any) -> None:
            left.append(len(shard.transactions))
            super().append(callback)

    world.timers.soon = Turns()
    world.timers.advance(sweep_ms)
    assert left[:3] == [301, 101, 1]
    assert set(shard.transactions) == {"fresh"}


def test_checkpoints_have_the_recovery_point_and_the_start_of_each_log(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    world = kept.world
    write(world, A0, 5)
    at_its_end(world.partitions[A0].delete_records_before(3, world.wall()))
    flush(world.partitions[A0]._log, lambda error: None)
    world.files.settle()
    write(world, A0, 2)
    world.timers.advance(60_000)
    assert kept.directory.recovery_points()[A0] == 5
    assert kept.directory.log_start_offsets() == {A0: 3}


def test_checkpoints_are_written_off_the_loop_once_for_all_waiting_callers(
    tmp_path: Path,
) -> None:
    """The first caller has a write of its own. The second and the third caller share the next
    write, with the state at the start of that write."""
    kept = Kept(tmp_path)
    log = kept.world.partitions[A0]._log
    write(kept.world, A0, 5)
    kept.disk.held = True
    answers = [kept.background_tasks.checkpoint() for _ in range(3)]
    log.recovery_point = 4
    assert not any(answer.done for answer in answers)
    assert kept.directory.recovery_points() == {}
    while not answers[0].done:
        kept.disk.go_on()
    assert kept.directory.recovery_points()[A0] == 0
    assert not answers[1].done
    answers[1].cancel()
    rounds = 0
    while not answers[2].done:
        kept.disk.go_on()
        rounds += 1
    assert kept.directory.recovery_points()[A0] == 4
    assert rounds == 2, "one round syncs the bytes, the next round syncs the names"


def test_the_old_checkpoints_stay_if_the_disk_refuses_the_new_checkpoints(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    assert kept.background_tasks.checkpoint().done
    log = kept.world.partitions[A0]._log
    old = kept.directory.recovery_points()
    log.recovery_point = 4
    temporary = tmp_path / (HIGH_WATERMARK_CHECKPOINT + TEMPORARY_SUFFIX)
    temporary.mkdir()  # a directory of that name makes the write fail
    with structlog.testing.capture_logs() as logged:
        refused = kept.background_tasks.checkpoint()
        assert isinstance(refused.value, StorageError)
        assert kept.directory.recovery_points() == old
        kept.world.timers.advance(3_000)
        assert kept.directory.recovery_points() == old
        temporary.rmdir()
        kept.world.timers.advance(3_000)
        assert kept.directory.recovery_points()[A0] == 4
    assert [event["event"] for event in logged] == ["disk refused", "disk takes it again"]
    assert kept.background_tasks.checkpoint().value is None


async def test_no_topic_is_created_while_the_checkpoints_have_a_deleted_topic_of_its_name(
    tmp_path: Path,
) -> None:
    """After a crash, a new topic of the same name could find the old checkpoints and lose
    records."""
    kept = Kept(tmp_path)
    metadata = ClusterMetadata(MemoryStore(), Settings())
    metadata.subscribe(kept.background_tasks.follow, deleted=kept.background_tasks.forgotten)
    await metadata.start(())
    await metadata.create_topics([NewTopic("again")])
    kept.disk.held = True
    deletion = asyncio.create_task(metadata.delete_topics(["again"]))
    # One turn of the loop at a time, so that the creation comes in the turn after the deletion.
    while "again" in metadata.image.topics:  # noqa: ASYNC110
        await asyncio.sleep(0)
    creation = asyncio.create_task(metadata.create_topics([NewTopic("again")]))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not deletion.done()
    assert "again" not in metadata.image.topics
    kept.disk.held = False
    kept.disk.go_on()
    assert await deletion == [None]
    (made,) = await creation
    assert isinstance(made, CreatedTopic)
    await metadata.stop()


def test_S3d_a_partition_that_could_not_be_opened_keeps_its_recovery_point(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    offline = TopicPartition("offline", 0)
    kept.background_tasks.checkpoint()
    points = dict(kept.directory.recovery_points()) | {offline: 77}
    for name, data in at_its_end(checkpoints_of(points, {offline: 7}, {})).items():
        (tmp_path / name).write_bytes(data)
    kept.partitions.add_offline(offline, "corrupt")
    kept.background_tasks.checkpoint()
    assert kept.directory.recovery_points()[offline] == 77
    assert kept.directory.log_start_offsets()[offline] == 7
    kept.partitions.remove(offline)
    kept.background_tasks.checkpoint()
    assert offline not in kept.directory.recovery_points()


def test_after_the_stop_no_duty_runs(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.background_tasks.stop()
    assert kept.world.is_quiet


def test_the_checkpoints_of_very_many_partitions_are_made_in_steps() -> None:
    """Making checkpoints of 20,000 lines each in one step took 30 ms of the event loop."""
    names = [("wide", number) for number in range(10 * SMALL)]
    offsets = dict.fromkeys(names, 7)
    calls = Calls()
    contents: dict[str, bytes] = at_its_end(calls.counted(checkpoints_of(offsets, {}, offsets)))
    assert calls.steps > 2 * len(names)
    assert calls.most < SMALL
    assert [len(decode_offsets(data)) for data in contents.values()] == [1_000, 0, 1_000]
