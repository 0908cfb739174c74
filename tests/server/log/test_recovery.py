"""Opening a log after damage, loss or a crash in any of its files (scenarios S1-S11, S18)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from oncelog_protocol.types import uuid_to_string
from oncelog_server.log.config import LogConfig
from oncelog_server.log.errors import AppendError, CorruptLog, InconsistentTopicId
from oncelog_server.storage.files import StorageError
from tests.server.log.driver import (
    DIRECTORY,
    NOW_MS,
    TOPIC_ID,
    Driver,
    busy,
    check_invariants,
    flush,
    logs_in,
    oracle_of,
    producers_of,
    read_all,
    timestamps_of,
)
from tests.server.log.followers import placed
from tests.server.storage.memory_files import FileNode, MemoryFiles


def active_path(driver: Driver) -> str:
    return driver.log.segments.active.log.path


def test_s1_a_log_torn_at_any_byte_is_truncated_to_the_last_whole_batch() -> None:
    driver = busy()
    path = active_path(driver)
    before = driver.log.log_end_offset
    start = driver.log.segments.active.size
    driver.send(1, 18, 2)
    whole = driver.files.after_kill()
    end = len(whole.nodes[path].data)
    for size in range(start, end):
        disk = whole.after_kill()
        del disk.nodes[path].data[size:]
        log = driver.open(clean=False, files=disk)
        assert log.log_end_offset == before
        assert log.recovery.cut_bytes == size - start
        assert log.recovery.is_loud == (size > start)
        assert not log.recovery.valid_batches_followed
        check_invariants(log, disk)


def test_s2_a_flipped_byte_in_the_last_batch_truncates_that_batch() -> None:
    driver = busy()
    path = active_path(driver)
    before = driver.log.log_end_offset
    start = driver.log.segments.active.size
    driver.send(1, 18, 1, size=4)
    whole = driver.files.after_kill()
    leader_epoch = range(start + 12, start + 16)  # the CRC does not cover this field
    base_offset = range(start, start + 8)
    for position in range(start, len(whole.nodes[path].data)):
        disk = whole.after_kill()
        disk.nodes[path].data[position] ^= 0x41
        log = driver.open(clean=False, files=disk)
        if position in leader_epoch or (position in base_offset and log.log_end_offset > before):
            continue  # not detected: no checksum covers leader epoch and base offset
        assert log.log_end_offset == before, position
        assert log.recovery.cut_position == start
        check_invariants(log, disk)


def test_valid_batches_after_a_cut_are_reported() -> None:
    driver = busy()
    start = driver.log.segments.active.size
    path = active_path(driver)
    driver.plain(1)
    driver.plain(1)
    driver.files.nodes[path].data[start + 70] ^= 1
    log = driver.kill()
    assert log.recovery.cut_position == start
    assert log.recovery.cut_path == path
    assert "CRC" in log.recovery.cut_reason
    assert log.recovery.valid_batches_followed
    check_invariants(log, driver.files)


def test_damage_in_an_unflushed_segment_also_removes_the_later_segments() -> None:
    driver = busy()
    first, second = logs_in(driver.files)[:2]
    driver.files.nodes[second].data[70] ^= 1
    disk = driver.files.after_kill()
    log = driver.open(clean=False, files=disk)
    disk.settle()
    assert logs_in(disk) == [first, second]
    assert log.log_end_offset == log.segments.active.base_offset
    assert log.recovery.valid_batches_followed
    check_invariants(log, disk)


@pytest.mark.parametrize("clean", [False, True])
def test_damage_below_the_recovery_point_is_never_skipped(clean: bool) -> None:
    driver = busy()
    point, _ = driver.stop()
    path = active_path(driver)
    disk = driver.files.after_kill()
    del disk.nodes[path].data[-5:]
    with pytest.raises(CorruptLog) as corrupt:
        driver.open(clean=clean, recovery_point=point, files=disk)
    assert corrupt.value.path == path
    assert 0 < corrupt.value.position <= len(disk.nodes[path].data)


def test_s17_a_log_ends_where_the_end_of_a_segment_was_lost() -> None:
    """The power failed when the next segment already had a name. The first segment ends after a
    whole batch, so no torn batch shows the loss."""
    driver = Driver()
    driver.plain()
    kept = driver.log.size_bytes
    driver.plain()
    driver.log.roll(driver.now_ms)
    driver.plain()
    first, second = driver.log.segments
    del driver.files.nodes[first.log.path].data[kept:]
    driver.kill()
    assert driver.log.log_end_offset == 1
    assert driver.log.recovery.cut_reason == "the next segment begins at offset 2"
    assert second.log.path not in driver.files.after_kill().nodes
    assert driver.plain().base_offset == 1
    check_invariants(driver.log, driver.files)


def test_a_gap_left_by_compaction_is_no_loss() -> None:
    driver = Driver(LogConfig(cleanup_policy=frozenset({"compact"})))
    driver.plain()
    kept = driver.log.size_bytes
    driver.plain()
    driver.log.roll(driver.now_ms)
    driver.plain()
    del driver.files.nodes[driver.log.segments[0].log.path].data[kept:]
    del driver.files.nodes[
        f"{DIRECTORY}/txn-index-checkpoint"
    ]  # its size of the segment is stale; a compaction would write the new size
    driver.kill()
    assert driver.log.log_end_offset == 3
    assert [record.offset for record in read_all(driver.log, 0)] == [0, 2]


def test_a_flipped_byte_below_the_recovery_point_of_the_last_segment_is_found() -> None:
    driver = busy()
    flush(driver.log, lambda error: None)
    driver.files.settle()
    driver.files.nodes[active_path(driver)].data[80] ^= 1
    with pytest.raises(CorruptLog, match="CRC"):
        driver.kill()


def test_a_log_that_lost_whole_segments_does_not_start() -> None:
    driver = busy()
    point, _ = driver.stop()
    for path in logs_in(driver.files)[1:]:
        del driver.files.nodes[path]
    with pytest.raises(CorruptLog, match="is gone"):
        driver.open(clean=True, recovery_point=point)


Spoil = Callable[[bytearray], None]
SPOILS: dict[str, Spoil] = {
    "empty": lambda data: data.clear(),
    "zeroed": lambda data: data.__setitem__(slice(None), bytes(len(data))),
    "one byte short": lambda data: data.__delitem__(slice(-1, None)),
    "random": lambda data: data.__setitem__(slice(None), Random(5).randbytes(len(data))),
    "one bit": lambda data: data.__setitem__(slice(-2, -1), bytes(b ^ 4 for b in data[-2:-1])),
    "twice": lambda data: data.extend(bytes(data)),
}
KINDS = [
    ".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint",
    "partition.metadata", "txn-index-checkpoint",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["missing", *SPOILS])
@pytest.mark.parametrize("clean", [True, False])
def test_s4_s6_s7_s8_the_log_opens_although_another_file_is_lost_or_damaged(
    kind: str, how: str, clean: bool
) -> None:
    driver = busy()
    point, _ = driver.stop()
    expected = timestamps_of(driver.log)
    disk = driver.files.after_kill()
    spoiled = [path for path in disk.nodes if path.endswith(kind)]
    assert spoiled
    for path in spoiled:
        if how == "missing":
            del disk.nodes[path]
        else:
            SPOILS[how](disk.nodes[path].data)
    if (kind, how) == ("partition.metadata", "one bit"):
        with pytest.raises(InconsistentTopicId):  # the log seems to belong to another topic
            driver.open(clean=clean, recovery_point=point, files=disk)
        return
    log = driver.open(clean=clean, recovery_point=point, files=disk)
    check_invariants(log, disk)
    assert timestamps_of(log) == expected
    assert log.end_offset_for_epoch(0) == driver.log.end_offset_for_epoch(0) or kind == (
        "leader-epoch-checkpoint"
    )


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_s7_an_index_of_another_segment_is_not_used(suffix: str) -> None:
    driver = busy()
    point, _ = driver.stop()
    paths = sorted(path for path in driver.files.nodes if path.endswith(suffix))
    contents = [bytes(driver.files.nodes[path].data) for path in paths]
    for path, content in zip(paths, [*contents[1:], contents[0]], strict=True):
        driver.files.nodes[path] = FileNode(bytearray(content))
    log = driver.open(clean=True, recovery_point=point)
    check_invariants(log, driver.files)


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_s7_l13_a_flipped_byte_in_an_index_changes_no_read(suffix: str) -> None:
    driver = busy()
    point, _ = driver.stop()
    whole = driver.files.after_kill()
    expected = timestamps_of(driver.log)
    oracle = oracle_of(whole)
    for path in [path for path in whole.nodes if path.endswith(suffix)]:
        for position in range(len(whole.nodes[path].data)):
            disk = whole.after_kill()
            disk.nodes[path].data[position] ^= 0x11
            log = driver.open(clean=True, recovery_point=point, files=disk)
            assert timestamps_of(log) == expected
            assert read_all(log) == oracle.records
            found = [row[:3] for row in log.aborted_transactions(0, oracle.end_offset)]
            assert found == oracle.aborted(0, oracle.end_offset), (path, position)


def test_s5_without_snapshots_a_clean_start_still_knows_its_producers() -> None:
    driver = busy()
    driver.send(1, 18, 2)
    for path in [path for path in driver.files.nodes if path.endswith(".snapshot")]:
        del driver.files.nodes[path]
    point, _ = driver.stop()
    for path in [path for path in driver.files.nodes if path.endswith(".snapshot")]:
        del driver.files.nodes[path]
    driver.log = driver.open(clean=True, recovery_point=point)
    assert driver.log.recovery.snapshot_offset is None
    assert driver.send(1, 18, 2).duplicate
    assert driver.log.first_unstable_offset(point) is not None
    check_invariants(driver.log, driver.files)


def test_s6_a_snapshot_beyond_the_log_end_offset_is_removed() -> None:
    driver = busy()
    driver.log.take_snapshot()
    end = driver.log.log_end_offset
    name = f"{DIRECTORY}/{end + 7:020d}.snapshot"
    driver.files.nodes[name] = FileNode(bytearray(driver.files.nodes[
        f"{DIRECTORY}/{end:020d}.snapshot"].data))  # fmt: skip
    log = driver.kill()
    driver.files.settle()
    assert name not in driver.files.nodes
    check_invariants(log, driver.files)


def test_s9b_a_producer_with_only_a_marker_keeps_its_epoch_and_coordinator_epoch() -> None:
    driver = Driver()
    driver.plain()
    driver.mark(9, epoch=4, coordinator_epoch=7)
    driver.restart()
    assert producers_of(driver.log.producers) == {9: (4, 7, -1, -1, -1)}
    with pytest.raises(AppendError) as refused:
        driver.mark(9, epoch=4, coordinator_epoch=6)
    assert refused.value.code == 52


def test_an_empty_open_transaction_of_a_snapshot_blocks_readers() -> None:
    """DeleteRecords has removed the records of the transaction but not the transaction."""
    driver = Driver()
    driver.send(1, 0, 1, transactional=True)
    driver.log.roll(driver.now_ms)
    driver.plain()
    driver.log.delete_records_before(1, driver.now_ms)
    driver.restart()
    assert driver.log.log_start_offset == 1
    assert driver.log.first_unstable_offset(2) == 1
    driver.mark(1, committed=False)
    assert driver.log.first_unstable_offset(3) is None


def test_s10_d3_a_crash_between_an_abort_and_its_index_row_loses_no_row() -> None:
    driver = Driver()
    driver.send(1, 0, 2, transactional=True)
    driver.files.fail_append(match=".txnindex")
    driver.mark(1, committed=False)
    assert driver.log.refusals.current is not None
    assert [row[:3] for row in driver.log.aborted_transactions(0, 3)] == [(1, 0, 2)]
    log = driver.kill()
    assert [row[:3] for row in log.aborted_transactions(0, 3)] == [(1, 0, 2)]
    check_invariants(log, driver.files)


def test_a_log_does_not_close_cleanly_if_the_disk_refuses_an_index_file() -> None:
    driver = Driver()
    driver.send(1, 0, 2, transactional=True)
    driver.mark(1, committed=False)
    driver.restart()
    driver.send(1, 2, 2, transactional=True)
    driver.files.fail_append(match=".txnindex")
    driver.mark(1, committed=False)
    driver.files.fail_append(match=".txnindex")
    with pytest.raises(StorageError):
        driver.stop()
    driver.kill()
    assert [row[:3] for row in driver.log.aborted_transactions(0, 9)] == [(1, 0, 2), (1, 3, 5)]
    check_invariants(driver.log, driver.files)


def test_the_directory_of_another_topic_is_refused() -> None:
    driver = busy()
    driver.stop()
    path = f"{DIRECTORY}/partition.metadata"
    text = f"version: 0\ntopic_id: {uuid_to_string(TOPIC_ID)}"
    assert bytes(driver.files.nodes[path].data).decode().strip() == text
    other = uuid_to_string(bytes(16))
    driver.files.replace(path, f"version: 0\ntopic_id: {other}".encode())
    with pytest.raises(InconsistentTopicId, match=other):
        driver.open(clean=True)


def test_a_log_that_did_not_change_writes_nothing_when_it_is_closed() -> None:
    driver = Driver()
    for _ in range(2):
        before = len(driver.files.operations)
        driver.restart()
        assert driver.files.operations[before:] == []
    driver = busy()
    driver.restart()
    before = len(driver.files.operations)
    driver.restart()
    assert driver.files.operations[before:] == []
    check_invariants(driver.log, driver.files)
    driver.plain()
    driver.kill()
    check_invariants(driver.log, driver.files)


def test_restarts_leave_no_additional_snapshots() -> None:
    driver = busy()
    for _ in range(5):
        driver.plain()
        driver.restart()
    driver.files.settle()
    snapshots = [name for name in driver.files.list(DIRECTORY) if name.endswith(".snapshot")]
    bases = {f"{segment.base_offset:020d}.snapshot" for segment in driver.log.segments[1:]}
    assert bases < set(snapshots)
    assert len(snapshots) == len(bases) + 1


def test_only_segments_from_the_recovery_point_on_are_scanned() -> None:
    driver = busy()
    driver.log.roll(driver.now_ms)
    driver.plain()
    driver.files.settle()
    assert driver.log.recovery_point == driver.log.segments.active.base_offset
    assert driver.kill().recovery.segments_scanned == 1


def stale_tail(driver: Driver) -> MemoryFiles:
    """Return the disk after a power loss that has undone a truncation: after the batches of epoch 2
    follows a batch of epoch 1, at the next offset."""
    for data in (placed(0, 0), placed(2, 2)):
        driver.log.append_replicated(bytes(data), now_ms=NOW_MS)
    disk = driver.files.after_kill()
    disk.nodes[logs_in(disk)[0]].data += placed(4, 1) + placed(6, 3)
    return disk


@pytest.mark.parametrize("refuses_damage", [False, True], ids=["data", "coordinator"])
def test_b21_a_log_ends_where_its_leader_epoch_falls(refuses_damage: bool) -> None:
    driver = Driver()
    disk = stale_tail(driver)
    log = driver.open(clean=False, files=disk, refuses_damage=refuses_damage)
    assert log.log_end_offset == 4
    assert log.recovery.cut_reason == "leader epoch 1 follows epoch 2"
    assert [entry.epoch for entry in log.leader_epochs] == [0, 2]
    check_invariants(log, disk)


def test_a_leader_epoch_that_falls_without_a_power_loss_is_damage() -> None:
    driver = Driver()
    disk = stale_tail(driver)
    with pytest.raises(CorruptLog, match="leader epoch 1 follows epoch 2"):
        driver.open(clean=False, files=disk, refuses_damage=True, lost_nothing=True)


def test_a_leader_epoch_that_falls_between_two_segments_ends_the_log_too() -> None:
    driver = Driver()
    driver.log.append_replicated(bytes(placed(0, 2)), now_ms=NOW_MS)
    driver.log.roll(NOW_MS)
    driver.log.append_replicated(bytes(placed(2, 2)), now_ms=NOW_MS)
    disk = driver.files.after_kill()
    path = logs_in(disk)[1]
    disk.nodes[path].data[:] = placed(2, 1)
    log = driver.open(clean=False, files=disk)
    assert log.log_end_offset == 2
    check_invariants(log, disk)
