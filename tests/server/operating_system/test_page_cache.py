"""Bytes that are only on the disk are recognized, and a prefetch brings them into memory."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from oncelog_server.operating_system import os_files
from oncelog_server.operating_system.os_files import OsFile, OsFiles
from oncelog_server.operating_system.page_cache import (
    PREFETCHES_AT_ONCE,
    Prefetches,
    Wanted,
    is_cached,
)
from tests.harness.descriptors import descriptors_in

DEADLINE_S = 60
MB = 1 << 20


class Disk:
    """Files, and the loop of their events."""

    def __init__(self, folder: Path, executor: Executor) -> None:
        self.folder = folder
        self.events: queue.Queue[Callable[[], None]] = queue.Queue()
        self.files = OsFiles(str(folder), executor=executor, call_on_loop=self.events.put)

    def run_until(self, done: list[str], count: int) -> None:
        while len(done) < count:
            self.events.get(timeout=DEADLINE_S)()

    def cold_file(self, data: bytes) -> OsFile:
        """Return a file with bytes that an earlier process has written, and that are only on the
        disk."""
        path = self.folder / "cold"
        path.write_bytes(data)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.drop(0, len(data))
        return self.files.open("cold")

    def drop(self, position: int, size: int) -> None:
        """Remove bytes of the cold file from the page cache, at least a part of them: the system
        keeps pages that are still in use."""
        descriptor = os.open(self.folder / "cold", os.O_RDONLY)
        try:
            end = time.monotonic() + DEADLINE_S
            while is_cached(descriptor, position, size):
                if time.monotonic() > end:
                    pytest.skip("this file system does not say which bytes are in the page cache")
                os.posix_fadvise(descriptor, position, size, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with ThreadPoolExecutor(PREFETCHES_AT_ONCE) as executor:
        disk = Disk(tmp_path, executor)
        yield disk
        disk.files.close()


def test_a_prefetch_brings_the_bytes_and_calls_back_on_the_loop(disk: Disk) -> None:
    data = os.urandom(4 * MB)
    file = disk.cold_file(data)
    threads: list[int] = []
    file.prefetch(MB, 2 * MB, lambda: threads.append(threading.get_ident()))
    assert not threads
    while not threads:
        disk.events.get(timeout=DEADLINE_S)()
    assert threads == [threading.get_ident()]
    assert file.is_cached(MB, 2 * MB)
    assert file.read(MB, 2 * MB) == data[MB : 3 * MB]


def test_a_prefetch_may_exceed_the_file(disk: Disk) -> None:
    file = disk.cold_file(os.urandom(MB))
    done: list[str] = []
    file.prefetch(MB // 2, 9 * MB, lambda: done.append("read"))
    disk.run_until(done, 1)
    assert file.is_cached(MB // 2, MB // 2)


def test_a_hole_in_the_page_cache_is_found(disk: Disk) -> None:
    """The first and the last bytes are there, because another client has read them."""
    file = disk.cold_file(os.urandom(4 * MB))
    done: list[str] = []
    file.prefetch(0, 4096, lambda: done.append("beginning"))
    file.prefetch(4 * MB - 4096, 4096, lambda: done.append("end"))
    disk.run_until(done, 2)
    # The file may have left the page cache only in part before.
    disk.drop(MB, 2 * MB)
    assert file.is_cached(0, 1)
    assert file.is_cached(4 * MB - 1, 1)
    assert not file.is_cached(0, 4 * MB)


def test_a_prefetch_of_a_missing_file_calls_back(disk: Disk) -> None:
    """The read that follows reports the error."""
    file = disk.files.open("gone", create=True)
    file.append(b"bytes")
    file.close()
    (disk.folder / "gone").unlink()
    done: list[str] = []
    file.prefetch(0, 5, lambda: done.append("missing"))
    disk.run_until(done, 1)
    assert disk.events.empty()


def test_a_callback_that_fails_does_not_keep_others_waiting(disk: Disk) -> None:
    """Several connections may wait for the same bytes."""
    file = disk.cold_file(os.urandom(MB))
    done: list[str] = []

    def fail() -> None:
        done.append("failed")
        raise RuntimeError("broken")

    file.prefetch(0, MB, fail)
    file.prefetch(0, MB, lambda: done.append("read"))
    with pytest.raises(RuntimeError, match="broken"):
        disk.run_until(done, 2)
    disk.run_until(done, 2)
    assert done == ["failed", "read"]


def test_no_descriptor_stays_open(disk: Disk) -> None:
    file = disk.cold_file(os.urandom(MB))
    file.close()
    assert descriptors_in(disk.folder) == 0
    done: list[str] = []
    for _ in range(20):
        file.prefetch(0, MB, lambda: done.append("read"))
        disk.run_until(done, len(done) + 1)
    assert descriptors_in(disk.folder) == 0
    assert disk.files.open_descriptors == 0


def test_recently_appended_bytes_need_no_system_call(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is the case of each consumer at the end of a log. Appends to other files count, because
    they push older bytes out of the page cache."""
    monkeypatch.setattr(os_files, "_RECENT_BYTES", 1_000)
    asked: list[int] = []

    def is_cached(descriptor: int, position: int, size: int) -> bool:
        asked.append(position)
        return False

    monkeypatch.setattr(os_files, "is_cached", is_cached)
    file, other = (disk.files.open(name, create=True) for name in ("file", "other"))
    file.append(bytes(600))
    file.append(bytes(600))
    assert file.is_cached(200, 100)
    assert not file.is_cached(199, 100)
    other.append(bytes(300))
    assert file.is_cached(500, 100)
    assert not file.is_cached(499, 100)
    file.truncate(100)
    file.append(bytes(10))
    assert file.is_cached(100, 10)
    again = disk.files.open("file")
    again.append(bytes(5))
    assert again.is_cached(110, 5)
    assert not again.is_cached(109, 5)
    again.truncate(60)
    again.append(bytes(5))
    assert again.is_cached(60, 5)
    assert not again.is_cached(59, 5)
    assert asked == [199, 499, 109, 59]


class Held(Executor):
    """Begins no job before the test runs it."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.jobs.append(lambda: work(*args, **kwargs))
        return Future()


def test_few_reads_run_at_once_and_the_same_bytes_are_read_once(tmp_path: Path) -> None:
    """fsyncs use the same threads. A client may ask again and again for records of a partition that
    is still being read."""
    (tmp_path / "f").write_bytes(bytes(100))
    executor, done = Held(), []
    prefetches = Prefetches(executor, lambda call: call())

    def add(position: int) -> None:
        prefetches.add(
            Wanted("f", position, 10),
            lambda: os.open(tmp_path / "f", os.O_RDONLY),
            lambda: done.append(position),
        )

    for position in (0, 10, 20, 0, 20, 30):
        add(position)
    assert len(executor.jobs) == PREFETCHES_AT_ONCE
    executor.jobs.pop(0)()
    assert done == [0, 0]
    assert len(executor.jobs) == PREFETCHES_AT_ONCE
    while executor.jobs:
        executor.jobs.pop(0)()
    assert done == [0, 0, 10, 20, 20, 30]
    add(0)
    executor.jobs.pop()()
    assert done[-1] == 0
