"""A follower drops its whole log, and begins again where the leader's log begins."""

from __future__ import annotations

from random import Random

import pytest

from oncelog_protocol.records.batch import patch_offsets, read_header
from oncelog_server.log.log import PartitionLog
from oncelog_server.storage.files import StorageError
from tests.server.log.driver import ANY_EPOCH, NOW_MS, Driver, busy, check_invariants, flush
from tests.server.log.followers import (
    KINDS,
    batches_in,
    files_of,
    follow,
    kill_at_each_change,
    state,
)
from tests.server.log.test_refused_files import Full
from tests.server.storage.memory_files import MemoryFiles

CASES = busy()
BATCHES = batches_in(CASES.files)
END = CASES.log.log_end_offset
# After the end, at a segment's start, and at the start of the log.
STARTS = (END + 100, 30, 0)


def moved(start: int) -> list[bytes]:
    """Return the batches of a leader's log that begins at `start`, in a later epoch."""
    found = []
    for data in BATCHES[:20]:
        header = read_header(data)
        batch = bytearray(data)
        patch_offsets(batch, 0, start + header.base_offset, 90)
        found.append(bytes(batch))
    return found


def restart(driver: Driver, start: int) -> None:
    driver.log.lower_recovery_point(start, restarts=True)
    driver.log.restart_at(start, NOW_MS)


def follow_from(start: int) -> Driver:
    """Return a follower that has never had other batches than those of `moved(start)`."""
    driver = Driver()
    restart(driver, start)
    driver.log.append_replicated(b"".join(moved(start)), leader_epoch=ANY_EPOCH, now_ms=NOW_MS)
    return driver


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("flushed", [False, True])
def test_a_log_that_began_again_has_nothing_of_the_old_log(start: int, flushed: bool) -> None:
    follower = follow(BATCHES)
    if flushed:
        flush(follower.log, lambda error: None)
        follower.files.settle()
    restart(follower, start)
    log = follower.log
    assert (log.log_start_offset, log.log_end_offset) == (start, start)
    assert (len(log.producers), list(log.leader_epochs), log.size_bytes) == (0, [], 0)
    assert log.recovery_point <= start
    log.append_replicated(b"".join(moved(start)), leader_epoch=ANY_EPOCH, now_ms=NOW_MS)
    follower.files.settle()
    other = follow_from(start)
    other.files.settle()
    assert files_of(follower, KINDS) == files_of(other, KINDS)
    assert state(log) == state(other.log)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("life", ["kill", "restart"])
def test_a_start_uses_no_state_of_the_old_log(start: int, life: str) -> None:
    follower = follow(BATCHES)
    follower.restart()
    restart(follower, start)
    follower.log.append_replicated(b"".join(moved(start)), leader_epoch=ANY_EPOCH, now_ms=NOW_MS)
    before = state(follower.log)
    getattr(follower, life)()
    assert state(follower.log) == before
    assert follower.log.log_start_offset == start


def check(log: PartitionLog, disk: MemoryFiles) -> None:
    if batches_in(disk):
        check_invariants(log, disk)
    else:  # the offset of an empty log is not in its bytes
        assert log.log_start_offset == log.log_end_offset


def check_after_crash(log: PartitionLog, disk: MemoryFiles, start: int) -> None:
    """Check that the log is a part of the old log, or empty. Then let it begin again."""
    found = batches_in(disk)
    assert found == BATCHES[: len(found)]
    check(log, disk)
    log.lower_recovery_point(start, restarts=True)
    log.restart_at(start, NOW_MS)
    log.append_replicated(b"".join(moved(start)), leader_epoch=ANY_EPOCH, now_ms=NOW_MS)
    disk.settle()
    assert batches_in(disk) == moved(start)
    assert not [name for name in disk.nodes if name.endswith(".deleted")]


@pytest.mark.parametrize("start", STARTS)
def test_s9_it_may_be_killed_at_any_change_of_the_disk(start: int) -> None:
    kill_at_each_change(
        lambda: follow(BATCHES),
        lambda log: log.lower_recovery_point(start, restarts=True),
        lambda log: log.restart_at(start, NOW_MS),
        lambda log, disk: check_after_crash(log, disk, start),
    )


@pytest.mark.parametrize("seed", range(20))
def test_s9_after_a_power_loss_it_is_a_prefix_of_one_of_the_logs(seed: int) -> None:
    random = Random(seed)
    start = random.choice(STARTS)
    follower = follow(BATCHES)
    flush(follower.log, lambda error: None)
    follower.files.settle()
    restart(follower, start)
    if random.random() < 0.5:
        follower.log.append_replicated(
            b"".join(moved(start)), leader_epoch=ANY_EPOCH, now_ms=NOW_MS
        )
    if random.random() < 0.5:
        follower.files.settle()
    disk = follower.files.after_power_loss(random)
    log = follower.open(clean=False, recovery_point=follower.log.recovery_point, files=disk)
    disk.settle()
    found = batches_in(disk)
    assert found in (BATCHES[: len(found)], moved(start)[: len(found)])
    check(log, disk)


@pytest.mark.parametrize("room", range(8))
def test_d6_a_disk_that_refuses_drops_nothing_or_makes_the_log_fail(room: int) -> None:
    follower = follow(BATCHES)
    before = files_of(follower)
    full = Full(follower.files, "", room)
    try:
        restart(follower, END + 100)
    except StorageError:
        full.free()
        if follower.log.failure is None:
            assert files_of(follower) == before
            restart(follower, END + 100)
            return
        with pytest.raises(StorageError):
            follower.plain()
    full.free()


def test_dropped_bytes_stay_in_the_count_of_appended_bytes() -> None:
    follower = follow(BATCHES)
    log = follower.log
    appended = log.segments.appended_bytes
    restart(follower, END + 100)
    assert log.segments.appended_bytes == appended
    assert log.log_end_offset - log.opened_at_offset == END
