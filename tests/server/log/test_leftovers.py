"""A start removes or renames the `.deleted`, `.cleaned`, `.swap` and `.tmp` files that a crash
left, as Kafka's LogLoader does (S18)."""

from __future__ import annotations

import pytest

from oncelog_server.log.leftovers import sweep
from tests.server.log.driver import DIRECTORY, Driver, batch
from tests.server.storage.memory_files import FileNode, MemoryFiles, Stopped


def disk_with(*names: str) -> MemoryFiles:
    """Return a disk with these files. Each `.log`, whatever its suffix, holds one batch of two
    records at its base offset."""
    files = MemoryFiles()
    files.make_directory(DIRECTORY)
    for name in names:
        data = bytes(batch(2, base_offset=int(name[:20]))) if ".log" in name else b"x"
        files.nodes[f"{DIRECTORY}/{name}"] = FileNode(bytearray(data))
    return files


def name(offset: int, rest: str) -> str:
    return f"{offset:020d}.{rest}"


CASES = {
    "deleted files are removed": ([name(0, "log.deleted"), name(2, "log")], [name(2, "log")]),
    "deleted snapshots are removed": (
        [name(0, "log"), name(0, "snapshot.deleted")],
        [name(0, "log")],
    ),
    "an unfinished compaction is removed": (
        [name(0, "log"), name(0, "log.cleaned"), name(0, "index.cleaned")],
        [name(0, "log")],
    ),
    "an unfinished compaction is removed with the swap files of later segments": (
        [name(0, "log"), name(2, "log"), name(0, "log.cleaned"), name(2, "log.swap")],
        [name(0, "log"), name(2, "log")],
    ),
    "a swap file of an earlier segment replaces the segment": (
        [name(0, "log"), name(2, "log"), name(2, "log.cleaned"), name(0, "log.swap")],
        [name(0, "log"), name(2, "log")],
    ),
    "a swap file gets the name of its segment": (
        [name(0, "log.swap"), name(0, "index.swap"), name(2, "log")],
        [name(0, "index"), name(0, "log"), name(2, "log")],
    ),
    "indexes without a log are removed": (
        [name(0, "log"), name(2, "index"), name(2, "timeindex"), name(2, "txnindex")],
        [name(0, "log")],
    ),
    "snapshots without a log stay": (
        [name(0, "log"), name(2, "snapshot")],
        [name(0, "log"), name(2, "snapshot")],
    ),
    "temporary files are removed": ([name(0, "log"), name(0, "snapshot.tmp")], [name(0, "log")]),
}


@pytest.mark.parametrize("case", CASES)
def test_s18_leftover_files_of_a_compaction_are_removed_or_completed(case: str) -> None:
    before, after = CASES[case]
    files = disk_with(*before)
    files.nodes[f"{DIRECTORY}/unknown"] = FileNode()
    sweep(files, DIRECTORY, files.list(DIRECTORY))
    files.settle()
    assert files.list(DIRECTORY) == [*sorted(after), "unknown"]


def test_s18_a_swap_file_replaces_all_segments_that_it_merges() -> None:
    files = disk_with(name(0, "log"), name(0, "index"), name(2, "log"), name(4, "log"))
    merged = batch(2, base_offset=0) + batch(2, base_offset=2)
    files.nodes[f"{DIRECTORY}/{name(0, 'log.swap')}"] = FileNode(bytearray(merged))
    sweep(files, DIRECTORY, files.list(DIRECTORY))
    files.settle()
    assert files.list(DIRECTORY) == [name(0, "log"), name(4, "log")]
    assert bytes(files.nodes[f"{DIRECTORY}/{name(0, 'log')}"].data) == bytes(merged)
    driver = Driver(files=files)
    assert driver.log.log_end_offset == 6


@pytest.mark.parametrize("case", CASES)
def test_s9_s18_handling_leftovers_may_be_killed_anywhere_and_repeated(case: str) -> None:
    before, after = CASES[case]
    for operation in range(20):
        files = disk_with(*before)
        files.stop_before(operation)
        try:
            sweep(files, DIRECTORY, files.list(DIRECTORY))
            files.settle()
        except Stopped:
            files = files.after_kill()
            sweep(files, DIRECTORY, files.list(DIRECTORY))
            files.settle()
            assert files.list(DIRECTORY) == sorted(after)
        else:
            return
