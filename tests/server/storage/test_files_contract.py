"""The contract of `Files`. The disk of the operating system and the disk in memory pass the same
tests."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from oncelog_server.operating_system.os_files import OsFiles
from oncelog_server.storage.files import Files, StorageError
from tests.server.storage.memory_files import MemoryFiles

DEADLINE_S = 60


@dataclass
class Disk:
    """A disk, and the loop of its events."""

    files: Files
    run_one: Callable[[], None]

    def sync(self, *paths: str) -> StorageError | None:
        outcome: list[StorageError | None] = []
        self.files.sync([self.files.open(path) for path in paths], outcome.append)
        assert not outcome, "the event must come after the call has returned"
        while not outcome:
            self.run_one()
        return outcome[0]

    def remove(self, *paths: str) -> StorageError | None:
        outcome: list[StorageError | None] = []
        self.files.remove(paths, outcome.append)
        assert not outcome
        while not outcome:
            self.run_one()
        return outcome[0]


@pytest.fixture(params=["memory", "os", "os with 2 descriptors"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "memory":
        memory = MemoryFiles()
        yield Disk(memory, memory.settle)
        return
    events: queue.Queue[Callable[[], None]] = queue.Queue()
    limit = 2 if "2" in request.param else 2048
    with ThreadPoolExecutor(1) as executor:
        files = OsFiles(
            str(tmp_path), executor=executor, call_on_loop=events.put, descriptor_limit=limit
        )
        yield Disk(files, lambda: events.get(timeout=DEADLINE_S)())
        files.close()


def test_appended_bytes_are_read_back_at_their_position(disk: Disk) -> None:
    disk.files.make_directory("a/b")
    file = disk.files.open("a/b/f", create=True)
    for buffer in (b"one", b"two", bytearray(b"three"), memoryview(b"four")):
        file.append(buffer)
    assert file.size == 15
    assert file.read(3, 3) == b"two"
    assert file.read(11, 100) == b"four"
    assert file.read(15, 1) == b""
    assert disk.files.open("a/b/f").size == 15


def test_a_missing_file_is_refused_and_named(disk: Disk) -> None:
    with pytest.raises(StorageError) as refused:
        disk.files.open("nothing")
    assert refused.value.path == "nothing"
    assert not disk.files.exists("nothing")
    with pytest.raises(StorageError):
        disk.files.list("nothing")
    with pytest.raises(StorageError):
        disk.files.open("no/directory", create=True)
    with pytest.raises(StorageError):
        disk.files.rename("nothing", "something")


def test_creating_an_existing_file_opens_it(disk: Disk) -> None:
    disk.files.open("f", create=True).append(b"old")
    file = disk.files.open("f", create=True)
    file.append(b"new")
    assert file.read(0, 9) == b"oldnew"


def test_truncate_cuts_and_appends_continue_at_the_cut(disk: Disk) -> None:
    file = disk.files.open("f", create=True)
    file.append(b"0123456789")
    file.truncate(4)
    assert file.size == 4
    file.append(b"x")
    assert file.read(0, 10) == b"0123x"


def test_a_closed_handle_still_works(disk: Disk) -> None:
    file = disk.files.open("f", create=True)
    file.append(b"a")
    file.close()
    file.close()
    file.append(b"b")
    assert file.read(0, 2) == b"ab"


def test_more_files_can_be_in_use_than_there_are_descriptors(disk: Disk) -> None:
    files = [disk.files.open(f"f{n}", create=True) for n in range(20)]
    for turn in range(3):
        for n, file in enumerate(files):
            file.append(bytes([n, turn]))
    assert all(file.read(0, 6) == bytes([n, 0, n, 1, n, 2]) for n, file in enumerate(files))
    assert disk.sync(*(file.path for file in files)) is None


def test_list_gives_sorted_names_of_files_and_directories(disk: Disk) -> None:
    disk.files.make_directory("d/sub")
    disk.files.open("d/b", create=True)
    disk.files.open("d/a", create=True)
    assert disk.files.list("d") == ["a", "b", "sub"]


def test_rename_takes_a_directory_with_its_files_and_replaces_a_file(disk: Disk) -> None:
    disk.files.make_directory("d")
    disk.files.open("d/f", create=True).append(b"x")
    disk.files.rename("d", "e")
    assert disk.files.list("e") == ["f"]
    assert not disk.files.exists("d")
    disk.files.open("e/g", create=True).append(b"new")
    disk.files.rename("e/g", "e/f")
    assert disk.files.open("e/f").read(0, 9) == b"new"
    assert disk.files.list("e") == ["f"]


def test_replace_writes_a_whole_file_and_leaves_no_other_file(disk: Disk) -> None:
    disk.files.make_directory("d")
    disk.files.replace("d/f", b"one")
    disk.files.replace("d/f", b"three")
    assert disk.files.open("d/f").read(0, 9) == b"three"
    assert disk.files.list("d") == ["f"]


def test_the_end_of_a_sync_is_an_event(disk: Disk) -> None:
    disk.files.open("f", create=True).append(b"x")
    assert disk.sync("f") is None
    assert disk.sync() is None


def test_remove_deletes_files_and_directories_and_ignores_missing_ones(disk: Disk) -> None:
    disk.files.make_directory("d/sub")
    disk.files.open("d/sub/f", create=True)
    disk.files.open("g", create=True)
    assert disk.remove("d", "g", "never there") is None
    assert not disk.files.exists("d")
    assert not disk.files.exists("g")


def test_descriptors_stay_open_until_the_end_of_a_sync(disk: Disk) -> None:
    files = [disk.files.open(f"f{n}", create=True) for n in range(5)]
    outcome: list[StorageError | None] = []
    disk.files.sync(files, outcome.append)
    for file in files:
        file.close()
    while not outcome:
        disk.run_one()
    assert outcome == [None]
    files[0].append(b"x")
    assert files[0].read(0, 1) == b"x"


def test_a_sync_succeeds_although_a_file_was_deleted_before_it(disk: Disk) -> None:
    """A topic may be deleted while its log waits for a sync. The sync of other files succeeds."""
    disk.files.make_directory("d")
    gone = [disk.files.open(f"d/{n}", create=True) for n in range(3)]
    kept = disk.files.open("kept", create=True)
    for file in gone:
        file.append(b"x")
        file.close()
    disk.files.rename("d", "e")
    outcome: list[StorageError | None] = []
    disk.files.sync([*gone, kept, kept], outcome.append)
    while not outcome:
        disk.run_one()
    assert outcome == [None]


def test_a_directory_renamed_during_a_sync_does_no_harm(disk: Disk) -> None:
    disk.files.make_directory("d")
    files = [disk.files.open(f"d/{n}", create=True) for n in range(5)]
    outcome: list[StorageError | None] = []
    disk.files.sync(files, outcome.append)
    disk.files.rename("d", "e")
    while not outcome:
        disk.run_one()
    assert outcome == [None]
