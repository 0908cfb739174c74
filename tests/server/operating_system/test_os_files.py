"""Failures that only the real disk has, such as too little space in the middle of a write."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from oncelog_server.operating_system import os_files
from oncelog_server.operating_system.os_files import OsFiles
from oncelog_server.storage.files import StorageError


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[OsFiles]:
    def at_once(callback: Callable[[], None]) -> None:
        callback()

    with ThreadPoolExecutor(1) as executor:
        files = OsFiles(str(tmp_path), executor=executor, call_on_loop=at_once)
        yield files
        files.close()


def test_a_write_cut_short_leaves_nothing_behind(files: OsFiles, tmp_path: Path) -> None:
    file = files.open("f", create=True)
    file.append(b"a" * 50)
    with largest_file(80), pytest.raises(StorageError, match="too large") as refused:
        file.append(b"x" * 60)
    assert refused.value.operation == "append"
    assert (tmp_path / "f").read_bytes() == b"a" * 50
    assert file.size == 50
    file.append(b"b")
    assert file.read(49, 9) == b"ab"


def test_a_tail_that_could_not_be_cut_is_cut_before_the_next_append(
    files: OsFiles, tmp_path: Path
) -> None:
    file = files.open("f", create=True)
    file.append(b"whole")
    file._cut_pending = True
    (tmp_path / "f").write_bytes(b"wholeha")
    file.append(b"next")
    assert (tmp_path / "f").read_bytes() == b"wholenext"


def test_zeros_of_a_probe_that_could_not_be_cut_are_cut_before_the_next_append(
    files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = files.open("f", create=True)
    file.append(b"whole")
    file.probe(4)
    assert (tmp_path / "f").read_bytes() == b"whole"

    def refuse(descriptor: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "ftruncate", refuse)
        with pytest.raises(StorageError, match="truncate"):
            file.probe(4)
        with pytest.raises(StorageError, match="truncate"):
            file.append(b"x")
        with pytest.raises(StorageError, match="truncate"):
            file.probe(1)
        assert file.size == 5
    assert (tmp_path / "f").read_bytes() == b"whole" + bytes(4)
    file.append(b"next")
    assert (tmp_path / "f").read_bytes() == b"wholenext"


def test_a_trim_cuts_only_what_a_refused_write_has_left(files: OsFiles, tmp_path: Path) -> None:
    file = files.open("f", create=True)
    file.append(b"whole")
    file._cut_pending = True
    (tmp_path / "f").write_bytes(b"wholeha")
    file.trim()
    assert (tmp_path / "f").read_bytes() == b"whole"
    changed = (tmp_path / "f").stat().st_mtime_ns
    file.trim()
    assert (tmp_path / "f").stat().st_mtime_ns == changed


def test_descriptors_stay_within_their_limit(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as executor:
        files = OsFiles(
            str(tmp_path), executor=executor, call_on_loop=lambda callback: None, descriptor_limit=4
        )
        handles = [files.open(f"f{n}", create=True) for n in range(10)]
        for handle in handles:
            handle.append(b"x")
            assert handle.fileno() >= 0
            assert files.open_descriptors <= 4
        files.close()
        assert files.open_descriptors == 0


def test_a_replace_that_fails_leaves_the_old_file_and_no_other(
    files: OsFiles, tmp_path: Path
) -> None:
    files.replace("f", b"old")
    with largest_file(2), pytest.raises(StorageError):
        files.replace("f", b"a new one")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("f", b"old")]


def test_a_sync_holds_its_descriptors_whatever_the_limit(tmp_path: Path) -> None:
    """A sync of more files than the limit of descriptors syncs each file by its own descriptor."""
    synced: list[StorageError | None] = []
    with ThreadPoolExecutor(1) as executor:
        files = OsFiles(
            str(tmp_path), executor=executor, call_on_loop=lambda done: done(), descriptor_limit=2
        )
        handles = [files.open(f"f{n}", create=True) for n in range(10)]
        pinned = files._pin(handles)
        numbers = {os.fstat(descriptor).st_ino for descriptor in pinned.values()}
        assert numbers == {(tmp_path / f"f{n}").stat().st_ino for n in range(10)}
        for handle in handles:
            handle._unpin()
        files.sync(handles, synced.append)
    assert synced == [None]
    files.close()


def test_a_file_that_cannot_be_opened_fails_its_sync(tmp_path: Path) -> None:
    synced: list[StorageError | None] = []
    with ThreadPoolExecutor(1) as executor:
        files = OsFiles(str(tmp_path), executor=executor, call_on_loop=lambda done: done())
        handle = files.open("f", create=True)
        handle.close()
        (tmp_path / "f").unlink()
        (tmp_path / "f").mkdir()
        files.sync([handle], synced.append)
    assert [type(outcome) for outcome in synced] == [StorageError]


def test_s17_a_sync_makes_the_name_of_an_existing_file_durable_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process may have created the file and not synced its directory. The next power loss
    would remove the file's name, and with it the synced data."""
    (tmp_path / "a-0").mkdir()
    (tmp_path / "a-0" / "log").write_bytes(b"left by a killed process")
    synced: list[str] = []
    monkeypatch.setattr(os_files, "_sync_directory", synced.append)
    with ThreadPoolExecutor(1) as executor:
        files = OsFiles(str(tmp_path), executor=executor, call_on_loop=lambda done: done())
        handle = files.open("a-0/log")
        for _ in range(2):
            files.sync([handle], lambda outcome: None)
            executor.submit(int).result()  # the sync has ended
    assert synced == [str(tmp_path / "a-0"), str(tmp_path)]
    files.close()


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("descriptor", ["of the file", "of its directory"])
def test_a_sync_without_descriptors_is_tried_until_there_are_some(
    tmp_path: Path, descriptor: str
) -> None:
    """A sync that finds no free descriptor has not failed, because the page cache still holds
    everything."""
    calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
    synced: list[StorageError | None] = []
    with ThreadPoolExecutor(1) as executor:
        executor.submit(int).result()
        files = OsFiles(str(tmp_path), executor=executor, call_on_loop=calls.put)
        handles = [files.open(f"f{n}", create=True) for n in range(2)]
        for handle in handles:
            handle.append(b"x")
        if descriptor == "of the file":
            handles[1].close()
        with no_more_descriptors():
            files.sync(handles, synced.append)
            files.sync(handles[1:], synced.append)
            for _ in range(4):
                calls.get(timeout=60)()
        assert synced == []
        while len(synced) < 2:
            calls.get(timeout=60)()
        assert synced == [None, None]
        for handle in handles:
            handle.close()
        assert files.open_descriptors == 0, "the sync keeps no descriptor open"


def test_a_handle_never_reads_another_file_that_has_taken_its_name(
    files: OsFiles, tmp_path: Path
) -> None:
    """A response may still be sent from a segment when compaction, or a new topic of the same name,
    puts another file in its place."""
    file = files.open("f", create=True)
    file.append(b"old")
    again = files.open("f")
    file.close()
    (tmp_path / "f").rename(tmp_path / "aside")
    (tmp_path / "f").write_bytes(b"new")
    for handle in (file, again):
        with pytest.raises(StorageError, match="open f: Stale file handle"):
            handle.read(0, 3)
        handle.renamed("aside")
        assert handle.read(0, 3) == b"old"
    assert files.open("f").read(0, 3) == b"new"


def test_a_sync_does_not_include_a_name_that_the_file_got_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[Callable[[], None]] = []
    synced: list[str] = []
    monkeypatch.setattr(os_files, "_sync_directory", synced.append)

    class HeldJobs(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            jobs.append(fn)

    with HeldJobs(1) as executor:
        files = OsFiles(str(tmp_path), executor=executor, call_on_loop=lambda done: done())
        file = files.open("f", create=True)
        for renamed_in_flight in (True, False):
            files.sync([file], lambda error: None)
            if renamed_in_flight:
                file.renamed("f")
            jobs.pop()()
            assert synced.pop() == str(tmp_path)
        files.sync([file], lambda error: None)
        jobs.pop()()
        assert synced == []
        files.close()
