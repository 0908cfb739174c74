"""Log files are damaged while no broker runs. The next start fails, unless a power failure explains
the damage. The start then cuts the log off before the damage."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random

import pytest
from msgspec.structs import replace

from oncelog_protocol.records.batch import HEADER_SIZE
from oncelog_server.log.checkpoints import decode_lines, encode_lines
from oncelog_server.log.config import LogConfig
from oncelog_server.log.damage import was_written
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.log import PartitionLog
from tests.server.log.driver import (
    DIRECTORY,
    NOW_MS,
    TOPIC_ID,
    Driver,
    delete_records_before,
    flush,
    read_all,
)
from tests.server.storage.memory_files import MemoryFiles

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}))


def logs(files: MemoryFiles) -> list[str]:
    return sorted(path for path in files.nodes if path.endswith(".log"))


def written() -> Driver:
    """Return a log of four segments with three batches each."""
    driver = Driver(CONFIG)
    for _ in range(4):
        driver.log.roll(driver.now_ms)
        for _ in range(3):
            driver.plain(size=300)
    driver.files.settle()
    return driver


def open_again(
    driver: Driver, *, clean: bool, point: int, refuses: bool = True, lost_nothing: bool = False
) -> PartitionLog:
    return PartitionLog.open(
        driver.files,
        DIRECTORY,
        driver.config,
        topic_id=TOPIC_ID,
        now_ms=NOW_MS,
        clean_shutdown=clean,
        recovery_point=point,
        log_start_offset=0,
        refuses_damage=refuses,
        lost_nothing=lost_nothing,
    )


def remove(files: MemoryFiles, path: str) -> None:
    del files.nodes[path]


def remove_all_of_it(files: MemoryFiles, path: str) -> None:
    for node in [node for node in files.nodes if node.startswith(path.removesuffix(".log"))]:
        del files.nodes[node]


def empty(files: MemoryFiles, path: str) -> None:
    del files.nodes[path].data[:]


def cut_at_a_batch(files: MemoryFiles, path: str) -> None:
    data = files.nodes[path].data
    assert len(data) % 3 == 0
    del data[len(data) // 3 :]


DAMAGE = [remove, remove_all_of_it, empty, cut_at_a_batch]


@pytest.mark.parametrize("refuses", [True, False], ids=["coordinator", "other"])
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(
    ("how", "slot"), [*product(["clean stop"], range(4)), *product(["kill"], range(3))]
)
def test_a_start_fails_each_time_if_a_segment_lost_batches(
    damage: Callable[[MemoryFiles, str], None], slot: int, how: str, refuses: bool
) -> None:
    """After a kill, the test does not damage the last segment: its records are above the recovery
    point, so the start would accept their loss as that of a power failure."""
    driver = written()
    clean = how == "clean stop"
    point = driver.stop()[0] if clean else driver.log.recovery_point
    driver.files = driver.files.after_kill()
    damage(driver.files, logs(driver.files)[slot])
    before = {path: bytes(node.data) for path, node in driver.files.nodes.items()}
    for _ in range(2):
        with pytest.raises(CorruptLog):
            open_again(driver, clean=clean, point=point, refuses=refuses)
    after = {path: bytes(node.data) for path, node in driver.files.nodes.items()}
    assert {p: d for p, d in after.items() if p.endswith(".log")} == {
        p: d for p, d in before.items() if p.endswith(".log")
    }


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("slot", range(3))
def test_a_coordinators_log_does_not_start_without_batches_that_a_kill_cannot_lose(
    damage: Callable[[MemoryFiles, str], None], slot: int
) -> None:
    """The log of a coordinator does not start even if the missing batches are above the recovery
    point. The computer kept running, so its page cache is complete."""
    driver = written()
    driver.files = driver.files.after_kill()
    damage(driver.files, logs(driver.files)[slot])
    for _ in range(2):
        with pytest.raises(CorruptLog):
            open_again(driver, clean=False, point=0, lost_nothing=True)


@pytest.mark.parametrize("zeros", [False, True])
def test_a_torn_closed_segment_is_damage_if_the_computer_kept_running(
    zeros: bool,
) -> None:
    driver = written()
    driver.files = driver.files.after_kill()
    driver.files.nodes[f"{DIRECTORY}/txn-index-checkpoint"].data.clear()
    data = driver.files.nodes[logs(driver.files)[2]].data
    del data[-250:]
    if zeros:
        data[-40:] = bytes(40)
    for _ in range(2):
        with pytest.raises(CorruptLog, match="whole batches follow"):
            open_again(driver, clean=False, point=0, lost_nothing=True)


@pytest.mark.parametrize(("point", "lost_nothing"), [(1, False), (0, True)])
def test_a_coordinator_without_a_durable_first_segment_does_not_start(
    point: int, lost_nothing: bool
) -> None:
    """Compaction never removes the first segment, so a log that begins later has lost it. No power
    failure explains that if the records were durable, or if the computer kept running."""
    driver = written()
    driver.files = driver.files.after_kill()
    remove(driver.files, logs(driver.files)[0])
    for _ in range(2):
        with pytest.raises(CorruptLog, match="the log begins at offset 3"):
            open_again(driver, clean=False, point=point, lost_nothing=lost_nothing)


def test_a_power_failure_that_takes_the_first_segment_takes_the_log() -> None:
    """No record was durable (seed 52781 of the simulation). The records after the lost ones are
    dropped, because a log has no gaps, and the log begins again at offset 0."""
    driver = written()
    driver.files = driver.files.after_kill()
    remove(driver.files, logs(driver.files)[0])
    log = open_again(driver, clean=False, point=0)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert log.recovery.cut_reason == "the records from offset 0 on are missing"
    assert log.recovery.cut_bytes > 0
    assert log.recovery.valid_batches_followed
    assert open_again(driver, clean=False, point=0, lost_nothing=True).log_end_offset == 0


@pytest.mark.parametrize(("lost_nothing", "end"), [(True, 12), (False, 7)])
def test_only_a_power_failure_can_have_lost_what_an_old_checkpoint_does_not_show(
    lost_nothing: bool, end: int
) -> None:
    """If the computer kept running, the checkpoint is the last one, and the gap was there."""
    driver = written()
    files = driver.files = driver.files.after_kill()
    checkpoint = files.nodes[f"{DIRECTORY}/txn-index-checkpoint"]
    # As before the roll that created the segment with offset 6.
    rows = [row for row in decode_lines(bytes(checkpoint.data)) if row.split()[0] not in ("6", "9")]
    checkpoint.data[:] = encode_lines(rows)
    cut_at_a_batch(files, logs(files)[2])
    log = open_again(driver, clean=False, point=0, refuses=False, lost_nothing=lost_nothing)
    assert log.log_end_offset == end


def test_a_log_starts_without_segments_that_retention_deleted() -> None:
    driver = Driver()
    for _ in range(4):
        driver.plain(size=300)
        driver.log.roll(driver.now_ms)
    delete_records_before(driver.log, 2, driver.now_ms)
    driver.files.settle()
    driver.kill()
    assert [record.offset for record in read_all(driver.log)] == [2, 3]
    driver.log = driver.open(clean=False, log_start_offset=0)
    assert driver.log.log_start_offset == 2


def test_deleted_segments_are_not_missing_after_a_change_of_the_cleanup_policy() -> None:
    """The log start is not in its checkpoint yet."""
    driver = Driver()
    for _ in range(4):
        driver.plain(size=300)
        driver.log.roll(driver.now_ms)
    driver.files.settle()
    delete_records_before(driver.log, 2, driver.now_ms)
    driver.config = replace(driver.config, cleanup_policy=frozenset({"compact"}))
    point = driver.log.recovery_point
    driver.files = driver.files.after_kill()
    log = driver.open(clean=False, recovery_point=point, lost_nothing=True)
    assert log.log_start_offset == 2


@pytest.mark.parametrize("refuses", [True, False], ids=["coordinator", "other"])
def test_a_coordinator_does_not_cut_off_whole_batches_behind_a_damaged_one(refuses: bool) -> None:
    """The damage is above the recovery point. Whole batches follow in the same segment, or only in
    a later segment."""
    for slot, batch in ((3, 1), (2, 2)):
        driver = written()
        driver.files = driver.files.after_kill()
        data = driver.files.nodes[logs(driver.files)[slot]].data
        data[len(data) * batch // 3 + 100] ^= 1
        if refuses:
            before = bytes(data)
            for _ in range(2):
                with pytest.raises(CorruptLog, match="whole batches follow"):
                    open_again(driver, clean=False, point=0)
            assert bytes(driver.files.nodes[logs(driver.files)[slot]].data) == before
        else:
            log = open_again(driver, clean=False, point=0, refuses=False)
            assert log.recovery.valid_batches_followed
            assert log.log_end_offset == 3 * slot + batch


def test_the_remains_of_a_power_failure_are_cut_off() -> None:
    """A power failure leaves zeros if a later write reached the disk and an earlier write did not.
    It may also leave a torn end."""
    for place in (0, 1):
        driver = written()
        driver.files = driver.files.after_kill()
        data = driver.files.nodes[logs(driver.files)[3]].data
        size = len(data) // 3
        data[place * size : (place + 1) * size] = bytes(size)
        log = open_again(driver, clean=False, point=0)
        assert log.log_end_offset == 9 + place
        assert log.recovery.valid_batches_followed
    driver = written()
    driver.files = driver.files.after_kill()
    del driver.files.nodes[logs(driver.files)[3]].data[-1:]
    assert open_again(driver, clean=False, point=0).log_end_offset == 11


@pytest.mark.parametrize("checkpoint", ["kept", "lost"])
def test_a_closed_segment_may_lose_its_end_to_a_power_failure_though_the_next_one_does_not(
    checkpoint: str,
) -> None:
    """The segment ends inside a batch above the recovery point. Its lost bytes were never
    acknowledged as durable."""
    for slot, cut in ((2, 1), (2, 250), (1, 340)):
        driver = written()
        driver.files = driver.files.after_kill()
        if checkpoint == "lost":
            driver.files.nodes[f"{DIRECTORY}/txn-index-checkpoint"].data.clear()
        del driver.files.nodes[logs(driver.files)[slot]].data[-cut:]
        log = open_again(driver, clean=False, point=0)
        assert log.log_end_offset == 3 * slot + 2


@pytest.mark.parametrize("kept", [0, 40])
def test_a_closed_segment_may_get_bytes_from_a_power_failure_that_were_never_written(
    kept: int,
) -> None:
    """The file system has made the file longer before it wrote the data (seed 72757). The file then
    has other bytes in place of the last batch and after it."""
    for slot in (1, 2):
        driver = written()
        driver.files = driver.files.after_kill()
        data = driver.files.nodes[logs(driver.files)[slot]].data
        size = len(data) // 3
        data[2 * size + kept :] = Random(slot).randbytes(size + 100)
        log = open_again(driver, clean=False, point=0)
        assert log.log_end_offset == 3 * slot + 2
        assert log.recovery.valid_batches_followed


@pytest.mark.parametrize("kept", [8, 12, 40, HEADER_SIZE + 1])
@pytest.mark.parametrize("slot", [1, 2])
def test_a_closed_segment_may_end_in_zeros_after_a_power_failure(slot: int, kept: int) -> None:
    """The file system has made the file longer, and the end of the last batch is lost (seed 8094).
    The segment was closed after the checkpoint, and the zeros are less than a sector."""
    driver = written()
    driver.files = driver.files.after_kill()
    driver.files.nodes[f"{DIRECTORY}/txn-index-checkpoint"].data.clear()
    data = driver.files.nodes[logs(driver.files)[slot]].data
    size = len(data) // 3
    data[2 * size + kept :] = bytes(size - kept + HEADER_SIZE)
    with pytest.raises(CorruptLog, match="whole batches follow"):
        open_again(driver, clean=False, point=0, lost_nothing=True)
    log = open_again(driver, clean=False, point=0)
    assert log.log_end_offset == 3 * slot + 2
    assert log.recovery.cut_path == logs(driver.files)[slot]


@pytest.mark.parametrize("zeros", [0, HEADER_SIZE - 1])
def test_few_zeros_explain_no_damage(zeros: int) -> None:
    """A damaged length may leave the zeros at the end of a batch's records behind the batch."""
    driver = written()
    driver.files = driver.files.after_kill()
    driver.files.nodes[f"{DIRECTORY}/txn-index-checkpoint"].data.clear()
    data = driver.files.nodes[logs(driver.files)[1]].data
    data[len(data) * 2 // 3 + 100] ^= 1
    data += bytes(zeros)
    with pytest.raises(CorruptLog, match="whole batches follow"):
        open_again(driver, clean=False, point=0)


@pytest.mark.parametrize("field", [8, 9, 10, 11])
def test_a_changed_length_is_damage_and_no_torn_end(field: int) -> None:
    """With the changed length the batch ends beyond the end of the file, like a torn batch. But the
    file is complete."""
    for slot in (1, 2):
        driver = written()
        driver.files = driver.files.after_kill()
        data = driver.files.nodes[logs(driver.files)[slot]].data
        data[len(data) * 2 // 3 + field] ^= 0x40
        with pytest.raises(CorruptLog, match="whole batches follow"):
            open_again(driver, clean=False, point=0)


def test_a_sector_that_was_never_written_is_no_damage() -> None:
    data = b"h" * 1000 + bytes(512) + b"t" * 100
    assert was_written(b"x" * 2000, 0)
    assert was_written(data, 0), "no whole sector is zeros"
    assert not was_written(data, 24)
    assert not was_written(bytes(61) + b"x" * 2000, 7)
    assert not was_written(b"h" * 12 + bytes(49) + b"x" * 2000, 7)
    assert was_written(b"h" * 12 + bytes(48) + b"x" * 2000, 7)
    assert was_written(b"h", 7), "no whole header"
    assert was_written(b"h" * 12 + bytes(48), 7), "no whole header"


def test_the_next_start_accepts_what_recovery_has_cut_off() -> None:
    driver = written()
    driver.files = driver.files.after_kill()
    cut_at_a_batch(driver.files, logs(driver.files)[1])
    driver.log = open_again(driver, clean=False, point=0)
    assert driver.log.log_end_offset == 4, "the log ends before the missing batches"
    for _ in range(6):
        driver.plain(size=300)
    flush(driver.log, lambda error: None)
    driver.files.settle()
    driver.kill()
    assert driver.log.log_end_offset == 10
    driver.restart()
    assert len(read_all(driver.log)) == 10


def test_a_damaged_checkpoint_makes_no_start_fail() -> None:
    driver = written()
    point, _ = driver.stop()
    path = f"{DIRECTORY}/txn-index-checkpoint"
    whole = bytes(driver.files.nodes[path].data)
    for place in range(len(whole)):
        driver.files = driver.files.after_kill()
        driver.files.nodes[path].data[:] = whole
        driver.files.nodes[path].data[place] ^= 1
        assert open_again(driver, clean=True, point=point).log_end_offset == 12


def test_a_checkpoint_of_an_older_release_is_read() -> None:
    driver = Driver()
    driver.send(1, 0, transactional=True)
    driver.mark(1, committed=False)
    driver.log.roll(driver.now_ms)
    driver.plain()
    point, start = driver.stop()
    path = f"{DIRECTORY}/txn-index-checkpoint"
    lines = driver.files.nodes[path].data.decode().splitlines()
    old = [*lines[:2], *(" ".join(line.split()[:3]) for line in lines[2:])]
    driver.files.replace(path, "".join(f"{line}\n" for line in old).encode())
    log = driver.open(clean=True, recovery_point=point, log_start_offset=start)
    assert [row[0] for row in log.aborted_transactions(0, 9)] == [1]
    assert log.segments.aborted.sizes == {}
