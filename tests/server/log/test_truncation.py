"""A log is truncated where it differs from the leader's log. It then equals a log that never was
longer."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_protocol.records.batch import patch_offsets, read_header
from oncelog_server.log.config import LogConfig
from oncelog_server.log.errors import OffsetOutOfRange
from oncelog_server.log.log import PartitionLog
from oncelog_server.slices import at_its_end
from oncelog_server.storage.files import StorageError
from tests.server.log.driver import (
    ANY_EPOCH,
    DIRECTORY,
    MANY,
    NOW_MS,
    SMALL,
    Driver,
    batch,
    busy,
    check_invariants,
    delete_records_before,
    flush,
)
from tests.server.log.followers import (
    COMPACTED,
    KINDS,
    batches_in,
    files_of,
    follow,
    kill_at_each_change,
    placed,
    state,
)
from tests.server.log.test_refused_files import Full
from tests.server.storage.memory_files import MemoryFiles, bytes_read


def truncate(driver: Driver, offset: int) -> None:
    driver.log.lower_recovery_point(offset)
    driver.log.truncate_to(offset, NOW_MS)


CASES = busy()
BATCHES = batches_in(CASES.files)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(BATCHES) - 1), st.booleans(), st.booleans(), st.integers(1, 6))
def test_a_truncated_log_equals_a_log_that_was_never_longer(
    kept: int, inside: bool, flushed: bool, at_once: int
) -> None:
    """The truncated log has the same bytes and the same state as the shorter log, also after
    further appends."""
    follower = follow(BATCHES, at_once)
    if flushed:
        flush(follower.log, lambda error: None)
        follower.files.settle()
    header = read_header(BATCHES[kept])
    truncate(follower, header.last_offset if inside else header.base_offset)
    follower.files.settle()
    other = follow(BATCHES[:kept], at_once)
    assert files_of(follower) == files_of(other)
    assert state(follower.log) == state(other.log)
    assert follower.log.recovery_point <= follower.log.log_end_offset
    check_invariants(follower.log, follower.files)
    for driver in (follower, other):
        driver.log.append_replicated(
            b"".join(BATCHES[kept:]), leader_epoch=ANY_EPOCH, now_ms=NOW_MS
        )
    assert files_of(follower) == files_of(CASES)
    assert state(follower.log) == state(CASES.log)
    for driver in (follower, other):
        driver.stop()
    assert files_of(follower, KINDS) == files_of(other, KINDS)
    check_invariants(follower.kill(), follower.files)


def test_truncation_to_the_end_and_a_repeated_truncation_change_nothing() -> None:
    follower = follow(BATCHES)
    before = list(follower.files.operations)
    truncate(follower, follower.log.log_end_offset)
    assert follower.files.operations == before
    truncate(follower, 7)
    follower.files.settle()
    before = list(follower.files.operations)
    truncate(follower, 7)
    assert follower.files.operations == before


def test_a_log_is_not_truncated_below_its_start() -> None:
    follower = follow(BATCHES)
    delete_records_before(follower.log, 20, NOW_MS)
    with pytest.raises(OffsetOutOfRange):
        follower.log.truncate_to(10, NOW_MS)
    assert follower.log.log_end_offset == CASES.log.log_end_offset


def test_a_flush_that_began_before_a_truncation_does_not_cover_newer_batches() -> None:
    follower = follow(BATCHES)
    outcome: list[object] = []
    flush(follower.log, outcome.append)
    truncate(follower, 10)
    end = follower.log.log_end_offset
    kept = [data for data in BATCHES if read_header(data).base_offset >= end]
    follower.log.append_replicated(b"".join(kept), leader_epoch=ANY_EPOCH, now_ms=NOW_MS)
    follower.files.pending.pop(0)
    while not outcome:
        follower.files.pending.pop(0)()
    assert follower.log.recovery_point <= end


def test_after_a_truncation_a_read_with_the_same_limit_finds_the_new_batches() -> None:
    follower = Driver()
    follower.log.append_replicated(
        placed(0, 1) + placed(2, 1) + placed(4, 1), leader_epoch=ANY_EPOCH, now_ms=NOW_MS
    )
    assert follower.log.read(0, 10_000, limit=4).records is not None
    truncate(follower, 2)
    longer = batch(2, size=90)
    patch_offsets(longer, 0, 2, 2)
    follower.log.append_replicated(longer + placed(4, 2), leader_epoch=ANY_EPOCH, now_ms=NOW_MS)
    found = follower.log.read(0, 10_000, limit=4).records
    assert found is not None
    assert found.read() == placed(0, 1) + longer


def check_cut(log: PartitionLog, disk: MemoryFiles, offset: int) -> None:
    """Check that the log after a crash is a prefix with every batch below `offset`. Then truncate
    it again and check the result."""
    found = batches_in(disk)
    assert found == BATCHES[: len(found)]
    expected = [data for data in BATCHES if read_header(data).last_offset < offset]
    assert len(found) >= len(expected)
    check_invariants(log, disk)
    log.lower_recovery_point(offset)
    log.truncate_to(offset, NOW_MS)
    disk.settle()
    assert batches_in(disk) == expected
    check_invariants(log, disk)
    assert not [name for name in disk.list(DIRECTORY) if name.endswith(".deleted")]


@pytest.mark.parametrize("config", [SMALL, COMPACTED], ids=["delete", "compact"])
@pytest.mark.parametrize("offset", [0, 1, 17, 30, 44])
def test_s9_a_truncation_may_be_killed_at_any_change_of_the_disk(
    offset: int, config: LogConfig
) -> None:
    kill_at_each_change(
        lambda: follow(BATCHES, config=config),
        lambda log: log.lower_recovery_point(offset),
        lambda log: log.truncate_to(offset, NOW_MS),
        lambda log, disk: check_cut(log, disk, offset),
    )


@pytest.mark.parametrize("seed", range(30))
def test_s9_after_a_power_loss_a_truncated_log_is_a_prefix_and_keeps_what_was_flushed(
    seed: int,
) -> None:
    random = Random(seed)
    offset = random.randrange(1, CASES.log.log_end_offset)
    follower = follow(BATCHES)
    flush(follower.log, lambda error: None)
    follower.files.settle()
    truncate(follower, offset)
    if random.random() < 0.5:
        follower.files.settle()
    disk = follower.files.after_power_loss(random)
    point = follower.log.recovery_point
    log = follower.open(clean=False, recovery_point=point, files=disk)
    disk.settle()
    check_cut(log, disk, offset)


@pytest.mark.parametrize("room", range(12))
def test_d6_a_truncation_that_the_disk_refuses_drops_nothing_or_makes_the_log_fail(
    room: int,
) -> None:
    follower = follow(BATCHES)
    before = state(follower.log), files_of(follower)
    follower.log.lower_recovery_point(17)
    full = Full(follower.files, "", room)
    try:
        follower.log.truncate_to(17, NOW_MS)
    except StorageError:
        full.free()
        if follower.log.failure is None:
            assert (state(follower.log), files_of(follower)) == before
            follower.log.truncate_to(17, NOW_MS)
            return
        with pytest.raises(StorageError):
            follower.plain()
    else:
        assert room > 3
    full.free()
    check_cut(follower.kill(), follower.files, 17)


def test_truncated_bytes_stay_in_the_count_of_appended_bytes() -> None:
    follower = follow(BATCHES)
    log = follower.log
    appended_bytes, end = log.segments.appended_bytes, log.log_end_offset
    assert (log.size_bytes, log.opened_at_offset) == (appended_bytes, 0)
    truncate(follower, 17)
    assert log.segments.appended_bytes == appended_bytes
    assert log.log_end_offset - log.opened_at_offset == end


def test_a_transaction_decided_above_the_high_watermark_stays_unstable() -> None:
    """The log rebuilds its producers from a snapshot. The snapshot is from after the transaction's
    marker."""
    follower = follow(BATCHES)
    log = follower.log
    aborted = log.aborted_transactions(0, MANY)[0]
    log.truncate_to(log.log_end_offset - 1, NOW_MS)
    assert log.snapshots.offsets[-1] > aborted.last_offset
    assert log.first_unstable_offset(aborted.last_offset) == aborted.first_offset


def newer(batches: list[bytes]) -> list[bytes]:
    """Return batches of a leader of a later epoch at the same offsets, by other producers."""
    found = []
    for data in batches:
        header = read_header(data)
        other = batch(
            header.last_offset_delta + 1, producer_id=99, producer_epoch=0,
            base_sequence=header.base_offset,
        )  # fmt: skip
        patch_offsets(other, 0, header.base_offset, 90)
        found.append(bytes(other))
    return found


@pytest.mark.parametrize("offset", [0, 17, 44])
@pytest.mark.parametrize("life", ["kill", "restart"])
def test_a_start_uses_no_state_of_truncated_batches(offset: int, life: str) -> None:
    """The follower stopped cleanly before the truncation. After the truncation it reaches the same
    end offset with different batches."""
    follower = follow(BATCHES)
    follower.restart()
    truncate(follower, offset)
    end = follower.log.log_end_offset
    rest = newer([data for data in BATCHES if read_header(data).base_offset >= end])
    follower.log.append_replicated(b"".join(rest), leader_epoch=ANY_EPOCH, now_ms=NOW_MS)
    assert follower.log.log_end_offset == CASES.log.log_end_offset
    getattr(follower, life)()
    check_invariants(follower.log, follower.files)
    assert follower.log.recovery.rebuilt == []
    if life == "restart":
        assert follower.log.recovery.snapshot_offset == follower.log.log_end_offset


def test_a_snapshot_of_truncated_batches_is_not_used_if_a_newer_one_is_refused() -> None:
    follower = follow(BATCHES)
    assert follower.log.snapshots.offsets[-1] > 17
    truncate(follower, 17)
    full = Full(follower.files, "snapshot", 0)
    end = follower.log.log_end_offset
    rest = newer([data for data in BATCHES if read_header(data).base_offset >= end])
    follower.log.append_replicated(b"".join(rest), leader_epoch=ANY_EPOCH, now_ms=NOW_MS)
    flush(follower.log, lambda error: None)
    follower.files.settle()
    full.free()
    check_invariants(follower.kill(), follower.files)


@pytest.mark.parametrize("offset", [1, 17, 30, 44])
def test_a_truncated_log_has_the_same_state_after_a_restart(offset: int) -> None:
    follower = follow(BATCHES)
    truncate(follower, offset)
    before = state(follower.log)
    follower.restart()
    assert state(follower.log) == before
    check_invariants(follower.log, follower.files)


BATCH_BYTES = 16 << 10
LARGE = LogConfig(segment_bytes=32 << 20, file_delete_delay_ms=0)


def large(producer_id: int = -1) -> Driver:
    """Return a log of 64 MiB in two segments."""
    driver = Driver(LARGE)
    for sequence in range((64 << 20) // BATCH_BYTES):
        driver.plain(
            size=BATCH_BYTES - 100, producer_id=producer_id,
            producer_epoch=min(producer_id, 0), base_sequence=sequence if producer_id >= 0 else -1,
        )  # fmt: skip
    assert len(driver.log.segments) >= 2
    return driver


@pytest.mark.parametrize("share", [0.98, 0.3], ids=["the last segment", "an earlier segment"])
def test_a_cut_reads_only_the_bytes_behind_an_index_entry(share: float) -> None:
    driver = large()
    offset = int(driver.log.log_end_offset * share)
    with bytes_read() as read:
        truncate(driver, offset)
    assert sum(read) < 64 << 10
    assert driver.log.log_end_offset == offset
    check_invariants(driver.log, driver.files)


def test_the_producers_before_a_cut_are_read_in_steps() -> None:
    driver = large(producer_id=7)
    log = driver.log
    offset = log.log_end_offset - 1
    with bytes_read() as read:
        steps = log.producers_before(offset, NOW_MS)
        counts = [sum(read) for _ in iter(lambda: next(steps, steps), steps)]
    assert len(counts) > 3
    assert max(after - before for before, after in pairwise([0, *counts])) <= 6 << 20
    before = at_its_end(log.producers_before(offset, NOW_MS))
    with bytes_read() as read:
        log.truncate_to(offset, NOW_MS, before)
    assert sum(read) < 64 << 10
    check_invariants(log, driver.files)


def test_a_producer_without_a_dropped_batch_is_not_read_again() -> None:
    driver = large()
    driver.send(7, 0)
    end_offset = driver.log.log_end_offset
    driver.plain()
    with bytes_read() as read:
        truncate(driver, end_offset)
    assert sum(read) < 64 << 10
    check_invariants(driver.log, driver.files)


def test_the_recovery_point_moves_down_with_the_log() -> None:
    follower = follow(BATCHES)
    flush(follower.log, lambda error: None)
    follower.files.settle()
    assert follower.log.recovery_point == follower.log.log_end_offset
    follower.log.truncate_to(17, NOW_MS)
    assert follower.log.recovery_point == follower.log.log_end_offset <= 17


def test_a_segment_that_grows_again_is_synced_after_its_next_roll() -> None:
    """A sync that began before the roll does not count."""
    follower = follow(BATCHES)
    truncate(follower, 17)
    log = follower.log
    growing = log.segments.active.log
    begun = log.begin_flush()
    log.roll(NOW_MS)
    log.finish_flush(begun, None)
    assert growing in log.segments.unsynced


def test_a_truncation_first_writes_the_txnindex_that_a_full_disk_refused() -> None:
    follower = follow(BATCHES)
    full = Full(follower.files, "txnindex$", 0)
    follower.mark(2, committed=False)
    before = state(follower.log), files_of(follower)
    with pytest.raises(StorageError):
        follower.log.truncate_to(17, NOW_MS)
    assert (state(follower.log), files_of(follower)) == before
    full.free()
    follower.log.truncate_to(17, NOW_MS)
    follower.plain()
    follower.log.roll(NOW_MS)
    check_invariants(follower.kill(), follower.files)
