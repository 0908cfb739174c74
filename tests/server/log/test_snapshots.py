"""Snapshot files that the disk refuses to finish leave nothing behind."""

from __future__ import annotations

import pytest

from oncelog_server.log.producer_snapshot import Snapshots
from oncelog_server.storage.files import StorageError
from tests.server.storage.memory_files import NO_SPACE, MemoryFiles


@pytest.mark.parametrize("refused", ["create", "append", "rename"])
def test_the_next_snapshot_removes_the_rest_of_a_refused_snapshot(refused: str) -> None:
    files = MemoryFiles()
    files.make_directory("a-0")
    snapshots = Snapshots(files, "a-0", [])
    step = files.step

    def full(operation: str, path: str) -> None:
        if operation == refused:
            raise StorageError(operation, path, NO_SPACE)
        step(operation, path)

    files.step = full  # type: ignore[method-assign]  # a fault
    with pytest.raises(StorageError, match=NO_SPACE):
        snapshots.take(7, [])
    files.step = step  # type: ignore[method-assign]  # no fault
    snapshots.take(9, [])
    files.settle()
    assert files.list("a-0") == ["00000000000000000009.snapshot"]
