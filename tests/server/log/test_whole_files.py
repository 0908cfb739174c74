"""Small files are read and written whole. The old file stays until the new file is complete."""

from __future__ import annotations

import pytest

from oncelog_server.log.whole_files import read_whole, swap_in, write_whole
from oncelog_server.storage.files import StorageError
from tests.server.storage.memory_files import MemoryFiles, Stopped


def test_a_read_returns_the_last_written_file() -> None:
    files = MemoryFiles()
    assert read_whole(files, "f") is None
    for data in (b"a longer one", b"short", b""):
        write_whole(files, "f", data)
        assert read_whole(files, "f") == data
    swap_in(files, "f", b"swapped")
    assert read_whole(files, "f") == b"swapped"
    assert files.list("") == ["f"]


def test_a_swap_that_fails_or_is_killed_leaves_the_old_file() -> None:
    files = MemoryFiles()
    swap_in(files, "f", b"old")
    files.fail_append()
    with pytest.raises(StorageError):
        swap_in(files, "f", b"new")
    assert read_whole(files, "f") == b"old"
    for operation in range(10):
        disk = files.after_kill()
        disk.stop_before(operation, torn_bytes=1)
        try:
            swap_in(disk, "f", b"new")
        except Stopped:
            assert read_whole(disk.after_kill(), "f") == b"old"
        else:
            assert read_whole(disk, "f") == b"new"
            return
    raise AssertionError("the swap does not end")
