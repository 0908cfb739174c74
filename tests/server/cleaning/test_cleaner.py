"""The log cleaner in a broker: the choice of the next log, the result of a pass, and coordinators
that load the same state from compacted logs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from oncelog_protocol.records.batch import build_batch, read_records, split_batches
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.record import NewRecord
from oncelog_server.cleaning.cleaner import LOGS_AT_ONCE
from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage, TopicImage
from oncelog_server.log.cleaner.job import CleanerStats
from oncelog_server.log.config import COMPACT, DELETE
from oncelog_server.log.record_rules import decompressed_limit
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import at_its_end
from oncelog_server.storage.layout import CLEANED_SUFFIX, CLEANER_CHECKPOINT
from oncelog_server.topic_partition import TopicPartition
from tests.server.between_steps import Calls
from tests.server.cleaning.cleanings import BACKOFF_MS, SETTINGS, Cleaning, size, write
from tests.server.log.driver import delete_records_before
from tests.server.transaction.world import (
    A0,
    A1,
    B0,
    MANY,
    OFFSETS,
    TXN_LOG,
    WALL_MS,
    World,
    value_of,
)

LARGEST_CLEAN_LOG = 3_500


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
        compacted.reconfigure(structs.replace(compacted.config, cleanup_policy=frozenset({DELETE})))
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
    compacted.reconfigure(structs.replace(compacted.config, **changes))
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


def test_the_cleaner_skips_a_corrupt_log_and_compacts_the_others() -> None:
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


@pytest.mark.parametrize("after", range(0, 40, 3))
def test_a_change_of_a_log_during_its_pass_ends_only_that_pass(after: int) -> None:
    """At some step of a pass, the log is deleted, is no longer to be compacted, or is shortened by
    retention, or the cleaner stops."""
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
            compacted.reconfigure(
                structs.replace(compacted.config, cleanup_policy=frozenset({DELETE}))
            )
        elif event == "retention":
            delete_records_before(
                compacted._log, compacted._log.segments[-1].base_offset, world.wall()
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
        structs.replace(
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
        delete_records_before(compacted._log, compacted._log.segments[1].base_offset, world.wall())
        world.files.settle()
        world.timers.advance(20_000)
    cleaning.run(20_000)
    write(compacted, 40)
    compacted._log.roll(world.wall())
    compacted.reconfigure(structs.replace(compacted.config, min_cleanable_dirty_ratio=0.0))
    cleaning.run(20_000)
    assert cleaning.checkpoint() == {A0: compacted._log.segments.active.base_offset}
    assert b"stale" not in values_of(compacted, b"deleted"), "the deleted key is back"
    assert cleaning.cleaner.uncleanable_count == 0
    assert not [name for name in world.files.nodes if name.endswith((".cleaned", ".swap"))]


def test_a_batch_that_is_larger_than_a_produce_may_be_now_is_compacted() -> None:
    """The topic did not limit the decompressed size when the batch was appended."""
    cleaning = Cleaning()
    world, log = cleaning.world, cleaning.world.partitions[A0]
    large = decompressed_limit(log.config) // 2 + 1
    records = [NewRecord(WALL_MS, b"k%d" % number, bytes(large)) for number in range(2)]
    log.append(build_batch(records, compression=Compression.ZSTD), now_ms=WALL_MS)
    log._log.roll(world.wall())
    cleaning.compact(A0)
    write(log, 100, keys=1)
    cleaning.run()
    assert cleaning.cleaner.uncleanable_count == 0
    assert cleaning.checkpoint() == {A0: log._log.segments.active.base_offset}
    first = log._log.segments[0]
    kept = read_records(first.log.read(0, first.size), max_bytes=MANY)
    assert [record.key for record in kept] == [b"k1"], "k0 has a later record"


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
        "the recreated topic was not cleaned as a new log"
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
    """Run committed and aborted transactions of three ids. Every second turn also commits offsets
    in them."""
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


def test_l11_coordinators_load_the_same_state_from_compacted_logs() -> None:
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
    assert written, "the expired offset has no tombstone"
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
            assert tombstones(compacted) == written, (
                "a tombstone was removed before its delete horizon"
            )
    assert tombstones(compacted) == []
    assert world.crash().offset()[1] == -1
