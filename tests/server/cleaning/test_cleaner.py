"""The log cleaner in a broker: the choice of the next log, the result of a pass, and coordinators
that load from compacted logs the same state as before."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import structlog

from oncelog_protocol.records.batch import build_batch, read_records, split_batches
from oncelog_protocol.records.record import NewRecord
from oncelog_server.cleaning.cleaner import AFTER_PROBE_MS, LOGS_AT_ONCE, LogCleaner
from oncelog_server.cleaning.slices import SlicedWork
from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage, TopicImage
from oncelog_server.log.checkpoints import decode_offsets
from oncelog_server.log.cleaner.job import CleanerStats
from oncelog_server.log.config import COMPACT, DELETE
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.registry import Partitions
from oncelog_server.refused_work import RETRY_MS, RefusedWork
from oncelog_server.settings.model import Settings
from oncelog_server.slices import at_its_end
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import CLEANED_SUFFIX, CLEANER_CHECKPOINT
from oncelog_server.topic_partition import TopicPartition
from tests.server.between_steps import Calls
from tests.server.transaction.world import A0, A1, B0, OFFSETS, TXN_LOG, WALL_MS, World, value_of
from tests.server.transaction.world_clock import WorldClock

BACKOFF_MS = 1_000
LARGEST_CLEAN_LOG = 3_500
# Files that a full disk still accepts.
ROOM = 10
SETTINGS = Settings(log_cleaner_backoff_ms=BACKOFF_MS, log_cleaner_io_buffer_size=500)


class Cleaning:
    """A broker in memory (`World`) with a cleaner that works in steps, on the timers of `World`."""

    def __init__(self, world: World | None = None, settings: Settings = SETTINGS) -> None:
        self.world = world or World()
        self.partitions = Partitions()
        for partition in self.world.partitions.values():
            self.partitions.add(partition)
        self.refused = RefusedWork(self.world.timers, self.world.now)
        self.cleaner = LogCleaner(
            settings,
            WorldClock(self.world),
            self.world.timers,
            self.partitions,
            self.world.files,
            partial(SlicedWork, self.world.files, self.world.timers),
            self.refused,
        )
        self.cleaner.start()

    def compact(self, name: TopicPartition, **changes: Any) -> Partition:
        compacted = self.world.partitions[name]
        config = replace(
            compacted.config, cleanup_policy=frozenset({COMPACT}), segment_bytes=1_000,
            delete_retention_ms=10_000, **changes,
        )  # fmt: skip
        compacted.reconfigure(config)
        return compacted

    def checkpoint(self) -> dict[tuple[str, int], int]:
        files = self.world.files
        if not files.exists(CLEANER_CHECKPOINT):
            return {}
        file = files.open(CLEANER_CHECKPOINT)
        return decode_offsets(file.read(0, file.size))

    def run(self, ms: int = BACKOFF_MS) -> None:
        self.world.settle(ms)


def write(partition: Partition, count: int, *, keys: int = 3) -> None:
    for number in range(count):
        record = NewRecord(WALL_MS, b"k%d" % (number % keys), b"v%d" % number)
        partition.append(build_batch([record]), now_ms=WALL_MS)


def size(partition: Partition) -> int:
    return partition.size_bytes


def test_a_dirty_log_is_compacted_after_the_backoff_and_the_checkpoint_has_its_end() -> None:
    cleaning = Cleaning()
    compacted = cleaning.compact(A0)
    write(compacted, 100)
    before = size(compacted)
    cleaning.run(BACKOFF_MS - 1)
    assert size(compacted) == before
    cleaning.run(1)
    assert size(compacted) < before / 3
    active = compacted._log.segments.active.base_offset
    assert cleaning.checkpoint() == {A0: active}
    assert compacted.log_end_offset == 100
    cleaning.run()
    assert cleaning.checkpoint() == {A0: active}


def test_the_dirtiest_log_is_first_and_all_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cleaning = Cleaning()
    first, second = cleaning.compact(A1), cleaning.compact(A0)
    write(first, 60)
    cleaning.run()
    cleaned = cleaning.checkpoint()[A1]
    write(first, 100)
    write(second, 100)
    order: list[TopicPartition] = []
    passed = cleaning.cleaner.passed

    def noting(partition: Partition, done: CleanerStats | None) -> None:
        order.append(partition.topic_partition)
        passed(partition, done)

    monkeypatch.setattr(cleaning.cleaner, "passed", noting)
    cleaning.run()
    assert order == [A0, A1]
    assert cleaning.checkpoint()[A1] > cleaned


def test_the_next_log_is_searched_in_steps_if_there_are_very_many() -> None:
    """In one step, a search of 20,000 logs, few of them compacted, took 20 ms of the event loop."""
    count = 5 * LOGS_AT_ONCE
    cleaning = Cleaning()
    for number in range(count):
        compacted = cleaning.world._open(TopicPartition("wide", number))
        compacted.reconfigure(replace(compacted.config, cleanup_policy=frozenset({DELETE})))
        cleaning.partitions.add(compacted)
    calls = Calls()
    assert at_its_end(calls.counted(cleaning.cleaner._find())) is None
    assert calls.most < count


@pytest.mark.parametrize(
    "changes",
    [
        {"cleanup_policy": frozenset({DELETE})},
        {"min_cleanable_dirty_ratio": 1.0},
        {"min_compaction_lag_ms": 3_600_000},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_log_that_is_not_to_be_compacted_yet_is_left_alone(changes: dict[str, Any]) -> None:
    cleaning = Cleaning()
    compacted = cleaning.compact(A0)
    compacted.reconfigure(replace(compacted.config, **changes))
    write(compacted, 100)
    before = size(compacted)
    cleaning.run(3 * BACKOFF_MS)
    assert size(compacted) == before
    assert cleaning.checkpoint() == {}


def test_max_compaction_lag_holds_however_clean_the_log_is() -> None:
    cleaning = Cleaning()
    compacted = cleaning.compact(A0, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=60_000)
    write(compacted, 100)
    before = size(compacted)
    cleaning.run(50_000)
    assert size(compacted) == before
    cleaning.run(12_000)
    assert size(compacted) < before


def test_a_disabled_cleaner_does_nothing() -> None:
    cleaning = Cleaning(settings=replace(SETTINGS, log_cleaner_enable=False))
    compacted = cleaning.compact(A0)
    write(compacted, 100)
    before = size(compacted)
    cleaning.run(10 * BACKOFF_MS)
    assert size(compacted) == before


def test_a_corrupt_log_is_left_as_it_is_and_the_others_are_cleaned() -> None:
    cleaning = Cleaning()
    corrupt, sound = cleaning.compact(A0), cleaning.compact(A1)
    write(corrupt, 200)
    write(sound, 100)
    path = corrupt._log.segments[1].log.path
    cleaning.world.files.nodes[path].data[70] ^= 1
    before = size(corrupt)
    cleaning.run(10 * BACKOFF_MS)
    assert size(corrupt) == before
    assert list(cleaning.checkpoint()) == [A1]
    assert (cleaning.cleaner.passes, cleaning.cleaner.uncleanable_count) == (1, 1)
    assert 0 <= cleaning.cleaner.idle_ms <= BACKOFF_MS
    assert not [name for name in cleaning.world.files.nodes if ".cleaned" in name]


@pytest.mark.parametrize("kind", [".log.cleaned", ".timeindex.cleaned", CLEANER_CHECKPOINT])
def test_d6_a_full_disk_stops_a_pass_and_it_is_done_when_there_is_space(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker logs two events, and begins no other pass while the disk is full."""
    cleaning = Cleaning()
    files = cleaning.world.files
    compacted = cleaning.compact(A0)
    write(compacted, 100)
    append = files.before_append

    def full(node: Any, path: str, data: bytes) -> None:
        if kind in path and len(data) > ROOM:
            raise StorageError("append", path, "No space left on device", len(data))
        append(node, path, data)

    with structlog.testing.capture_logs() as events:
        monkeypatch.setattr(files, "before_append", full)
        started = noted(cleaning)
        cleaning.run(60_000)
        assert compacted.offline is None
        assert compacted.failure is None
        assert len(started) == 1
        assert cleaning.checkpoint() == {}
        assert cleaning.cleaner.uncleanable_count == (kind != CLEANER_CHECKPOINT)
        assert not [name for name in files.nodes if name.endswith(CLEANED_SUFFIX)]
        monkeypatch.setattr(files, "before_append", append)
        cleaning.run(5_000)
    assert A0 in cleaning.checkpoint()
    assert cleaning.cleaner.uncleanable_count == 0
    logged = [event["event"] for event in events if event["event"] != "log compacted"]
    assert logged == ["disk refused", "disk takes it again"]
    assert not [name for name in files.nodes if ".cleaned" in name]


def noted(cleaning: Cleaning) -> list[object]:
    """Record the passes that begin from now on."""
    started: list[object] = []
    cleaning.cleaner._start_work = partial(_noting, started, cleaning.cleaner._start_work)
    return started


def test_d6_a_disk_that_takes_what_is_written_and_refuses_its_name_begins_no_other_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cleaning = Cleaning()
    files = cleaning.world.files
    write(cleaning.compact(A0), 100)
    rename = files.rename

    def full(path: str, target: str) -> None:
        if path.endswith(CLEANED_SUFFIX):
            raise StorageError("rename", path, "No space left on device")
        rename(path, target)

    monkeypatch.setattr(files, "rename", full)
    started = noted(cleaning)
    cleaning.run(60_000)
    assert len(started) == 1
    monkeypatch.setattr(files, "rename", rename)
    cleaning.run(5_000)
    assert A0 in cleaning.checkpoint()


def test_d6_a_log_that_is_refused_after_the_probe_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk accepts the probe's zeros but refuses records."""
    cleaning = Cleaning()
    files = cleaning.world.files
    write(cleaning.compact(A0), 100)
    append = files.before_append

    def full(node: Any, path: str, data: bytes) -> None:
        if path.endswith(CLEANED_SUFFIX) and any(data):
            raise StorageError("append", path, "No space left on device", len(data))
        append(node, path, data)

    monkeypatch.setattr(files, "before_append", full)
    started = noted(cleaning)
    cleaning.run(60_000)
    assert 2 <= len(started) <= 1 + 60_000 // AFTER_PROBE_MS


def test_d6_a_pass_begins_as_soon_as_there_is_space_and_the_event_comes_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pass does not wait for the cleaner's interval between two passes."""
    cleaning = Cleaning(settings=replace(SETTINGS, log_cleaner_backoff_ms=600_000))
    files = cleaning.world.files
    write(cleaning.compact(A0), 100)
    files.fail_append(match=".log.cleaned", reason="No space left on device")
    with structlog.testing.capture_logs() as events:
        cleaning.run(600_000)
        cleaning.run(5_000)
    logged = [event["event"] for event in events]
    assert logged == ["disk refused", "log compacted", "disk takes it again"]


def test_d6_the_refused_work_ends_at_once_with_its_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pass after the first probe is refused too. The next probe comes AFTER_PROBE_MS later."""
    cleaning = Cleaning(settings=replace(SETTINGS, log_cleaner_backoff_ms=600_000))
    files = cleaning.world.files
    write(cleaning.compact(A0), 100)
    append = files.before_append

    def full(node: Any, path: str, data: bytes) -> None:
        if path.endswith(CLEANED_SUFFIX) and any(data):
            raise StorageError("append", path, "No space left on device", len(data))
        append(node, path, data)

    monkeypatch.setattr(files, "before_append", full)
    with structlog.testing.capture_logs() as events:
        cleaning.run(600_000)
        cleaning.run(RETRY_MS)
        monkeypatch.setattr(files, "before_append", append)
        # The clock is a millisecond behind the timer.
        cleaning.cleaner._refused[A0] = later_by(cleaning.cleaner._refused[A0], 1)
        cleaning.run(AFTER_PROBE_MS)
    logged = [event["event"] for event in events]
    assert logged == ["disk refused", "log compacted", "disk takes it again"]


def later_by(refused: tuple[StorageError, int], by_ms: int) -> tuple[StorageError, int]:
    return refused[0], refused[1] + by_ms


def test_d6_a_log_with_nothing_left_to_clean_ends_its_refused_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The probe succeeds, and the cleaner finds no log to clean in the same turn."""
    cleaning = Cleaning()
    files = cleaning.world.files
    compacted = cleaning.compact(A0)
    write(compacted, 100)
    files.fail_append(match=".log.cleaned", reason="No space left on device")
    with structlog.testing.capture_logs() as events:
        cleaning.run(BACKOFF_MS)
        assert len(cleaning.refused) == 1
        compacted.reconfigure(replace(compacted.config, min_cleanable_dirty_ratio=1.0))
        cleaning.run(RETRY_MS)
    assert len(cleaning.refused) == 0
    assert [event["event"] for event in events] == ["disk refused", "disk takes it again"]


def refused_once() -> Cleaning:
    """Return a cleaner after a pass over A0 that a full disk has refused. It waits for a retry."""
    cleaning = Cleaning(settings=replace(SETTINGS, log_cleaner_backoff_ms=600_000))
    write(cleaning.compact(A0), 100)
    cleaning.world.files.fail_append(match=".log.cleaned", reason="No space left on device")
    cleaning.run(600_000)
    assert len(cleaning.refused) == 1
    return cleaning


def test_d6_the_refused_work_of_a_compacted_log_ends_before_the_pass_over_another_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cleaner may have no pause between its passes (seed 60851 of the simulation)."""
    cleaning = refused_once()
    write(cleaning.compact(A1), 60)
    seen: list[tuple[TopicPartition, int]] = []
    passed = cleaning.cleaner.passed

    def noting(partition: Partition, done: CleanerStats | None) -> None:
        seen.append((partition.topic_partition, len(cleaning.refused)))
        passed(partition, done)

    monkeypatch.setattr(cleaning.cleaner, "passed", noting)
    cleaning.run(RETRY_MS)
    assert seen == [(A0, 1), (A1, 0)]


def test_d6_a_log_found_corrupt_after_a_full_disk_is_given_up_once() -> None:
    cleaning = refused_once()
    closed = cleaning.world.partitions[A0]._log.segments[-2]
    cleaning.world.files.nodes[closed.log.path].data[-1] ^= 1
    with structlog.testing.capture_logs() as events:
        cleaning.run(10 * RETRY_MS)
    assert [event["event"] for event in events] == ["log not compacted"]
    assert len(cleaning.refused) == 0


def test_d6_a_log_that_is_not_compacted_any_more_ends_its_refused_work() -> None:
    cleaning = refused_once()
    compacted = cleaning.world.partitions[A0]
    compacted.reconfigure(replace(compacted.config, cleanup_policy=frozenset({DELETE})))
    cleaning.run(RETRY_MS)
    assert (len(cleaning.refused), cleaning.cleaner.uncleanable_count) == (0, 0)


@pytest.mark.parametrize("how", ["closed", "deleted"])
def test_d6_a_log_deleted_while_the_disk_is_full_is_not_retried(how: str) -> None:
    cleaning = Cleaning()
    write(cleaning.compact(A0), 100)
    files = cleaning.world.files
    files.capacity = sum(len(node.data) for node in files.nodes.values())
    cleaning.run(5_000)
    assert cleaning.cleaner.uncleanable_count == 1
    assert len(cleaning.refused) == 1
    cleaning.partitions.remove(A0)
    if how == "deleted":
        topic = TopicImage(A0.topic, bytes(16), "", {}, (), 0)
        delta = ImageDelta(topics_deleted=(topic,))
        cleaning.cleaner.follow(ClusterImage(), ClusterImage(), delta)
    else:
        cleaning.run(5_000)
    assert (len(cleaning.refused), cleaning.cleaner.uncleanable_count) == (0, 0)


def _noting(started: list[object], start_work: Any, job: Any, work: Any) -> Any:
    started.append(job)
    return start_work(job, work)


@pytest.mark.parametrize("after", range(0, 40, 3))
def test_a_change_of_a_log_during_its_pass_ends_only_that_pass(after: int) -> None:
    """The log is deleted, no longer compacted, or shortened by retention at any step of a pass."""
    for event in ("deleted", "reconfigured", "retention", "stop"):
        cleaning = Cleaning()
        world = cleaning.world
        compacted, other = cleaning.compact(A0), cleaning.compact(A1)
        write(compacted, 200, keys=150)
        write(other, 100)
        steps = 0
        while steps < after and world.timers.run_next(world.now() + BACKOFF_MS):
            world.files.settle() if steps % 2 else None
            steps += 1
        if event == "deleted":
            cleaning.partitions.remove(A0)
            compacted._log.rename_directory("a-0.deleted")
            world.files.remove(["a-0.deleted"])
        elif event == "reconfigured":
            compacted.reconfigure(replace(compacted.config, cleanup_policy=frozenset({DELETE})))
        elif event == "retention":
            compacted._log.delete_records_before(
                compacted._log.segments[-1].base_offset, world.wall()
            )
        else:
            cleaning.cleaner.stop()
        cleaning.run(3 * BACKOFF_MS)
        assert compacted.failure is None or event == "deleted"
        left = [name for name in world.files.nodes if name.endswith((".cleaned", ".swap"))]
        assert not left, (event, after)
        if event != "stop":
            assert size(other) < 3_000
            assert A1 in cleaning.checkpoint()


def values_of(partition: Partition, key: bytes) -> list[bytes | None]:
    found = []
    for segment in partition._log.segments:
        data = segment.log.read(0, segment.size)
        for position, _ in split_batches(data):
            records = read_records(data, position, max_bytes=1 << 20)
            found += [record.value for record in records if record.key == key]
    return found


@pytest.mark.parametrize("delete_retention_ms", [0, 10_000])
@pytest.mark.parametrize("policy", [{COMPACT}, {COMPACT, DELETE}])
def test_a_deleted_key_stays_deleted_when_retention_is_faster_than_a_pass(
    policy: set[str], delete_retention_ms: int
) -> None:
    """Segments that could not be replaced keep stale records. The log then counts as uncompacted,
    and the tombstones that hide these records stay."""
    cleaning = Cleaning()
    world = cleaning.world
    compacted = cleaning.compact(A0)

    def put(value: bytes | None) -> None:
        record = NewRecord(world.wall(), b"deleted", value)
        compacted.append(build_batch([record]), now_ms=world.wall())

    write(compacted, 40)
    stale_at = compacted.log_end_offset
    put(b"stale")
    write(compacted, 200, keys=150)
    put(None)
    write(compacted, 40)
    compacted._log.roll(world.wall())
    compacted.reconfigure(
        replace(
            compacted.config, cleanup_policy=frozenset(policy), segment_bytes=6_000,
            delete_retention_ms=delete_retention_ms,
        )
    )  # fmt: skip
    for _ in range(2):
        steps = 0
        while compacted._log.segments[0].log.path + CLEANED_SUFFIX not in world.files.nodes:
            steps += 1
            assert steps < 1_000, "the cleaner makes no progress"
            world.files.settle()
            world.timers.run_next(world.now() + BACKOFF_MS)
            world.timers.run_soon()
        assert compacted._log.segments[1].end_offset < stale_at
        compacted._log.delete_records_before(compacted._log.segments[1].base_offset, world.wall())
        world.files.settle()
        world.timers.advance(20_000)
    cleaning.run(20_000)
    write(compacted, 40)
    compacted._log.roll(world.wall())
    compacted.reconfigure(replace(compacted.config, min_cleanable_dirty_ratio=0.0))
    cleaning.run(20_000)
    assert cleaning.checkpoint() == {A0: compacted._log.segments.active.base_offset}
    assert b"stale" not in values_of(compacted, b"deleted"), "the deleted key is back"
    assert cleaning.cleaner.uncleanable_count == 0
    assert not [name for name in world.files.nodes if name.endswith((".cleaned", ".swap"))]


def test_a_recreated_topic_starts_uncleaned() -> None:
    cleaning = Cleaning()
    compacted = cleaning.compact(A0)
    write(compacted, 100)
    cleaning.run()
    assert A0 in cleaning.checkpoint()
    topic = TopicImage("a", bytes(16), "", {}, (), 0)
    delta = ImageDelta(topics_deleted=(topic,))
    cleaning.cleaner.follow(ClusterImage(), ClusterImage(), delta)
    other = cleaning.compact(B0)
    write(other, 100)
    cleaning.run()
    assert B0 in cleaning.checkpoint()
    assert cleaning.checkpoint()[A0] == compacted._log.segments.active.base_offset, (
        "the recreated topic is cleaned as a new log"
    )


def test_a_broken_checkpoint_costs_another_pass_and_nothing_else() -> None:
    world = World()
    file = world.files.open(CLEANER_CHECKPOINT, create=True)
    file.append(b"nonsense")
    cleaning = Cleaning(world)
    compacted = cleaning.compact(A0)
    write(compacted, 100)
    cleaning.run()
    assert list(cleaning.checkpoint()) == [A0]


# --- coordinators


def work(world: World, turns: range) -> None:
    """Run committed and aborted transactions of three ids, with offsets. One transaction stays
    open."""
    for turn in turns:
        for name in ("t1", "t2", "t3"):
            producer = world.producer(name)
            world.produce(producer, A0, 0, transactional_id=name)
            if turn % 2:
                world.add(producer, OFFSETS, transactional_id=name)
                value_of(world.commit_offset(producer, turn * 10, transactional_id=name))
            world.settle()
            value_of(world.end(producer, turn % 3 != 1, transactional_id=name))
            world.settle()


def memory(world: World) -> tuple[object, Any]:
    """Return the state of both coordinators."""
    ((_, shard),) = world.groups.runtime.shards()
    ((_, transactions),) = world.transactions.runtime.shards()
    known = {
        name: (live.metadata.producer_id, live.metadata.producer_epoch, live.metadata.state,
               live.metadata.partitions)
        for name, live in transactions.transactions.items()
    }  # fmt: skip
    return known, shard.table.offsets.snapshot()


def test_l11_coordinators_load_from_compacted_logs_what_they_had_in_memory() -> None:
    world = World()
    cleaning = Cleaning(world)
    logs = [cleaning.compact(TXN_LOG), cleaning.compact(OFFSETS)]
    for life in range(3):
        work(world, range(life * 10, life * 10 + 10))
        opened = world.producer("open")
        world.produce(opened, A1, 0, transactional_id="open")
        world.settle(20_000)
        assert all(size(log) < LARGEST_CLEAN_LOG for log in logs), [size(log) for log in logs]
        assert {TXN_LOG, OFFSETS} <= set(cleaning.checkpoint())
        expected = memory(world)
        world = world.crash()
        cleaning = Cleaning(world)
        logs = [cleaning.compact(TXN_LOG), cleaning.compact(OFFSETS)]
        assert memory(world) == expected
        assert world.offset()[1] == expected[1][0]["g", "in", 0].offset


def tombstones(partition: Partition) -> list[int]:
    found = []
    for segment in partition._log.segments:
        data = segment.log.read(0, segment.size)
        for position, header in split_batches(data):
            if not header.is_control:
                records = read_records(data, position, max_bytes=1 << 20)
                found += [record.offset for record in records if record.value is None]
    return found


def test_tombstones_of_expired_offsets_are_cleaned_in_the_end() -> None:
    world = World()
    compacted = world.partitions[OFFSETS]
    producer = world.producer()
    world.add(producer, OFFSETS)
    value_of(world.commit_offset(producer, 7))
    value_of(world.end(producer, True))
    world.settle(8 * 24 * 3_600_000)
    written = tombstones(compacted)
    assert written, "the offset has expired"
    assert world.offset()[1] == -1
    cleaning = Cleaning(world)
    cleaning.compact(OFFSETS, min_cleanable_dirty_ratio=0.0)
    for turn in range(3):
        compacted._log.roll(world.wall())
        producer = world.producer(f"t{turn}")
        world.add(producer, OFFSETS, transactional_id=f"t{turn}")
        value_of(world.commit_offset(producer, turn, transactional_id=f"t{turn}"))
        value_of(world.end(producer, False, transactional_id=f"t{turn}"))
        world.settle(12_000)
        if not turn:
            assert tombstones(compacted) == written, "their delete horizon has not passed"
    assert tombstones(compacted) == []
    assert world.crash().offset()[1] == -1
