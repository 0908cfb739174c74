"""Opening a log if one of its files is lost, damaged or of another log (scenarios S4-S8)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from oncelog_protocol.types import uuid_to_string
from oncelog_server.log.errors import InconsistentTopicId
from tests.server.log.driver import (
    DIRECTORY,
    TOPIC_ID,
    Driver,
    busy,
    check_invariants,
    delete_records_before,
    oracle_of,
    read_all,
    timestamps_of,
)
from tests.server.storage.memory_files import FileNode

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


def test_an_empty_open_transaction_of_a_snapshot_blocks_readers() -> None:
    """DeleteRecords has removed the records of the transaction but not the transaction."""
    driver = Driver()
    driver.send(1, 0, 1, transactional=True)
    driver.log.roll(driver.now_ms)
    driver.plain()
    delete_records_before(driver.log, 1, driver.now_ms)
    driver.restart()
    assert driver.log.log_start_offset == 1
    assert driver.log.first_unstable_offset(2) == 1
    driver.mark(1, committed=False)
    assert driver.log.first_unstable_offset(3) is None


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
