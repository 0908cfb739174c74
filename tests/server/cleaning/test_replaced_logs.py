"""The cleaner and a log that is deleted and created again, moves away and comes back, or is cut.
The new records are cleaned as new records, and a pass over the old records does not change them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from oncelog_protocol.records.batch import build_batch, read_records, split_batches
from oncelog_protocol.records.record import NewRecord
from oncelog_server.cluster.delta import ImageDelta, PartitionChange
from oncelog_server.cluster.image import ClusterImage, PartitionImage, TopicImage
from oncelog_server.log.log import PartitionLog
from oncelog_server.partition.follower_log import Cut, FollowerLog
from oncelog_server.partition.partition import Partition
from oncelog_server.storage.layout import CLEANED_SUFFIX, SWAP_SUFFIX
from tests.server.cleaning.cleanings import BACKOFF_MS, Cleaning, write
from tests.server.transaction.world import A0, A1, WALL_MS

UNFINISHED = (CLEANED_SUFFIX, SWAP_SUFFIX)


def put(partition: Partition, key: str, value: str | None) -> None:
    record = NewRecord(WALL_MS, key.encode(), None if value is None else value.encode())
    partition.append(build_batch([record]), now_ms=WALL_MS)


def records_of(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return offset, key and value of all records."""
    found = []
    for segment in log.segments:
        data = segment.log.read(0, segment.size)
        for position, _ in split_batches(data):
            records = read_records(data, position, max_bytes=1 << 20)
            found += [(record.offset, record.key, record.value) for record in records]
    return found


def values_of(partition: Partition, key: str) -> list[bytes | None]:
    return [value for _, found, value in records_of(partition._log) if found == key.encode()]


def put_and_delete_a_key(partition: Partition, end_offset: int) -> None:
    """Write a key and its tombstone, then fill the log up to `end_offset` in the same segment."""
    put(partition, "deleted", "v1")
    put(partition, "x", "v")
    put(partition, "deleted", None)
    while partition.log_end_offset < end_offset:
        put(partition, "y", "v")
    partition._log.roll(WALL_MS)


def outlive_the_tombstone(cleaning: Cleaning, partition: Partition) -> None:
    """Run passes until the tombstone is past its delete horizon."""
    for _ in range(3):
        write(partition, 300)
        partition._log.roll(cleaning.world.wall())
        cleaning.run(30_000)


def create_again(cleaning: Cleaning) -> Partition:
    """Replace the log of A0 by an empty log with the same directory."""
    cleaning.partitions.remove(A0)
    cleaning.world.recreate(A0)
    cleaning.partitions.add(cleaning.world.partitions[A0])
    return cleaning.compact(A0)


def test_a_deleted_key_stays_deleted_in_a_log_that_comes_back_to_the_broker() -> None:
    """The offset up to which the first log was compacted says nothing about the second log."""
    cleaning = Cleaning()
    first = cleaning.compact(A0)
    write(first, 100)
    cleaning.run()
    cleaned_offset = cleaning.checkpoint()[A0]
    second = create_again(cleaning)
    put_and_delete_a_key(second, cleaned_offset + 10)
    outlive_the_tombstone(cleaning, second)
    assert values_of(second, "deleted") == []


@pytest.mark.parametrize("restarts", [False, True])
def test_a_deleted_key_stays_deleted_in_a_log_that_was_cut_and_grew_again(restarts: bool) -> None:
    cleaning = Cleaning()
    log = cleaning.compact(A0)
    write(log, 100)
    cleaning.run()
    cleaned_offset = cleaning.checkpoint()[A0]
    follower, cut = FollowerLog(log), Cut(3, restarts=restarts)
    follower.lower_recovery_point(cut)
    follower.cut(cut, WALL_MS)
    put_and_delete_a_key(log, cleaned_offset + 10)
    outlive_the_tombstone(cleaning, log)
    assert values_of(log, "deleted") == []


def test_a_cut_below_the_compacted_offset_waits_for_the_checkpoint() -> None:
    """A crash after the cut would otherwise find the old offset, and the log may have grown above
    it."""
    cleaning = Cleaning()
    log = cleaning.compact(A0)
    write(log, 100)
    cleaning.run()
    cleaned_offset = cleaning.checkpoint()[A0]
    log._log.recovery_point = 0
    follower, cut = FollowerLog(log), Cut(cleaned_offset - 10)
    assert follower.lower_recovery_point(cut)
    cleaning.background_tasks.checkpoint()
    cleaning.world.settle()
    assert cleaning.checkpoint()[A0] <= cleaned_offset - 10
    assert not follower.lower_recovery_point(cut)


def until_a_sync_of(cleaning: Cleaning, suffix: str) -> None:
    """Run the pass over A0 until a sync of its files with `suffix` is in flight."""
    files, timers = cleaning.world.files, cleaning.world.timers
    for _ in range(10_000):
        found = [name for name in files.list("a-0") if name.endswith(f".log{suffix}")]
        if found and files.pending:
            return
        timers.run_turn()
        if files.pending:
            files.pending.pop(0)()
        elif not timers.soon:
            timers.run_next(timers.now_ms + BACKOFF_MS)
    raise AssertionError(f"no pass has files with {suffix}")


def hold_syncs(cleaning: Cleaning) -> Callable[[], None]:
    """Return a function that completes the operations in flight, without later ones."""
    held, cleaning.world.files.pending = cleaning.world.files.pending, []

    def complete() -> None:
        for end in held:
            end()

    return complete


@pytest.mark.parametrize("suffix", UNFINISHED)
def test_a_pass_over_a_deleted_log_changes_no_file_of_its_successor(suffix: str) -> None:
    cleaning = Cleaning()
    write(cleaning.compact(A0), 200)
    until_a_sync_of(cleaning, suffix)
    complete = hold_syncs(cleaning)
    new = create_again(cleaning)
    put(new, "k", "new")
    files = cleaning.world.files
    before = {name: bytes(node.data) for name, node in files.nodes.items() if "a-0/" in name}
    complete()
    assert {
        name: bytes(node.data) for name, node in files.nodes.items() if "a-0/" in name
    } == before
    cleaning.run(0)
    assert not [name for name in files.nodes if name.endswith(UNFINISHED)]
    write(new, 100)
    cleaning.run(3 * BACKOFF_MS)
    assert A0 in cleaning.checkpoint(), "the cleaner continues"


@pytest.mark.parametrize("suffix", UNFINISHED)
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("ends", ["completes", "killed"])
def test_a_cut_during_a_pass_keeps_all_records_that_were_appended_after_it(
    suffix: str, restarts: bool, ends: str
) -> None:
    """The new segments may have the base offsets of the old segments."""
    cleaning = Cleaning()
    partition = cleaning.compact(A0)
    write(partition, 200)
    until_a_sync_of(cleaning, suffix)
    complete = hold_syncs(cleaning)
    bases = [segment.base_offset for segment in partition._log.segments]
    follower, cut = FollowerLog(partition), Cut(bases[1] + 2, restarts=restarts)
    follower.lower_recovery_point(cut)
    follower.cut(cut, WALL_MS)
    while partition.log_end_offset < bases[4]:
        put(partition, f"new{partition.log_end_offset}", "v")
    expected = records_of(partition._log)
    if ends == "completes":
        complete()
        cleaning.cleaner.stop()
        cleaning.run()
        assert records_of(partition._log) == expected
    world = cleaning.world.crash()
    assert records_of(world.partitions[A0]._log) == expected


def test_a_pass_does_not_replace_a_segment_that_was_appended_again_after_a_cut() -> None:
    """The cut may come between the sync of the new names and the swap."""
    cleaning = Cleaning()
    partition = cleaning.compact(A0)
    write(partition, 200)
    until_a_sync_of(cleaning, SWAP_SUFFIX)
    assert cleaning.cleaner._pass is not None
    partition._log.clean_part.pass_ended()  # the cut does not learn of the pass
    bases = [segment.base_offset for segment in partition._log.segments]
    partition._log.truncate_to(bases[1] + 2, WALL_MS)
    while partition.log_end_offset < bases[4]:
        put(partition, f"new{partition.log_end_offset}", "v")
    expected = [row for row in records_of(partition._log) if (row[1] or b"").startswith(b"new")]
    cleaning.run(BACKOFF_MS)
    found = [row for row in records_of(partition._log) if (row[1] or b"").startswith(b"new")]
    assert found == expected


def test_a_partition_that_leaves_has_no_entry_in_the_checkpoint_before_its_removal() -> None:
    """A later replica with the same name is opened after a write of the checkpoint, and the removal
    of the earlier replica may still be queued then. A pass that ends meanwhile changes nothing."""
    cleaning = Cleaning()
    write(cleaning.compact(A0), 100)
    write(cleaning.compact(A1), 100)
    cleaning.run()
    assert {A0, A1} <= cleaning.checkpoint().keys()
    write(cleaning.world.partitions[A0], 200)
    cleaning.world.timers.run_next(cleaning.world.now() + BACKOFF_MS)
    cleaning.world.partitions[A0].clean_part.leave()
    cleaning.run(3 * BACKOFF_MS)
    cleaning.background_tasks.checkpoint_cleaned()
    cleaning.world.settle()
    assert A0 not in cleaning.checkpoint()
    assert A1 in cleaning.checkpoint()


def test_a_log_that_comes_back_does_not_inherit_that_an_earlier_log_was_corrupt() -> None:
    cleaning = Cleaning()
    corrupt = cleaning.compact(A0)
    write(corrupt, 200)
    cleaning.world.files.nodes[corrupt._log.segments[1].log.path].data[70] ^= 1
    cleaning.run()
    assert cleaning.cleaner.uncleanable_count == 1
    before = PartitionImage(bytes(16), 0, (0,), (0,), 0, 0, 0)
    topic = TopicImage("a", bytes(16), "", {}, (before,), 0)
    change = PartitionChange(topic, before, structs.replace(before, replicas=(2,)))
    corrupt.clean_part.leave()
    cleaning.cleaner.follow(ClusterImage(), ClusterImage(), ImageDelta(partitions=(change,)))
    assert cleaning.cleaner.uncleanable_count == 0
    write(create_again(cleaning), 100)
    cleaning.run(3 * BACKOFF_MS)
    assert A0 in cleaning.checkpoint()


@pytest.mark.parametrize("suffix", UNFINISHED)
@pytest.mark.parametrize("change", ["moves", "deletes"])
def test_a_pass_ends_as_soon_as_the_metadata_moves_or_deletes_its_log(
    suffix: str, change: str
) -> None:
    cleaning = Cleaning()
    write(cleaning.compact(A0), 200)
    until_a_sync_of(cleaning, suffix)
    if change == "moves":
        cleaning.world.partitions[A0].clean_part.leave()
    else:
        cleaning.partitions.delete_topic(A0.topic, bytes(16))
    operations = len(cleaning.world.files.operations)
    cleaning.cleaner.follow(ClusterImage(), ClusterImage(), ImageDelta())
    cleaning.run(0)
    assert len(cleaning.world.files.operations) == operations, "the pass changed a file"
    assert cleaning.cleaner._pass is None
