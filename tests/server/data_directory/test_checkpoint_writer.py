"""A failed write of a checkpoint leaves the old checkpoint. Every caller gets the error."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from oncelog_server.data_directory.checkpoint_writer import CheckpointWriter
from oncelog_server.deferred import Deferred
from oncelog_server.slices import Slices, Steps
from oncelog_server.storage.files import StorageError
from tests.server.manual_timers import ManualTimers
from tests.server.storage.memory_files import MemoryFiles

NAMES = ("first", "second")


class Writer:
    """A checkpoint writer with two checkpoints of the same content."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.names: tuple[str, ...] = NAMES
        self.content = b"old"
        self.defect: Exception | None = None
        timers = ManualTimers(0)
        slices = Slices(timers, lambda: timers.now_ms, steps_per_slice=100)
        self.writer = CheckpointWriter(self.files, self.collect, slices)

    def collect(self) -> Steps[Mapping[str, bytes]]:
        yield
        if self.defect is not None:
            raise self.defect
        return dict.fromkeys(self.names, self.content)

    def written(self) -> Deferred[StorageError | None]:
        done = self.writer.write()
        self.files.settle()
        return done

    @property
    def kept(self) -> list[bytes]:
        return [bytes(self.files.nodes[name].data) for name in NAMES]

    @property
    def left_over(self) -> int:
        """Return the number of bytes on disk in other files than the checkpoints."""
        return sum(len(node.data) for path, node in self.files.nodes.items() if path not in NAMES)


def refuse_append(files: MemoryFiles) -> None:
    files.fail_append(2)


def refuse_sync(files: MemoryFiles) -> None:
    files.fail_sync()


@pytest.mark.parametrize("refuse", [refuse_append, refuse_sync])
def test_a_refused_write_leaves_the_old_checkpoints_and_takes_no_space(
    refuse: Callable[[MemoryFiles], None],
) -> None:
    scene = Writer()
    assert scene.written().value is None
    scene.content = b"new"
    refuse(scene.files)
    assert isinstance(scene.written().value, StorageError)
    assert (scene.kept, scene.left_over) == ([b"old"] * 2, 0)
    assert scene.written().value is None
    assert (scene.kept, scene.left_over) == ([b"new"] * 2, 0)


@pytest.mark.parametrize("refuse", [refuse_append, refuse_sync])
def test_a_write_of_fewer_checkpoints_removes_what_a_refused_write_left(
    refuse: Callable[[MemoryFiles], None],
) -> None:
    scene = Writer()
    refuse(scene.files)
    assert isinstance(scene.written().value, StorageError)
    scene.names = NAMES[:1]
    assert scene.written().value is None
    scene.files.settle()
    assert scene.files.list("") == ["first"]


def test_a_write_removes_what_the_start_could_not_remove() -> None:
    scene = Writer()
    scene.files.open("third.tmp", create=True)
    scene.writer.remove_later(["third"])
    assert scene.written().value is None
    scene.files.settle()
    assert scene.files.list("") == sorted(NAMES)


def test_a_temporary_file_that_cannot_be_removed_is_removed_after_the_next_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Writer()
    scene.files.open("third.tmp", create=True)
    scene.writer.remove_later(["third"])
    rename = scene.files.rename

    def refused(path: str, target: str) -> None:
        if path == "third.tmp":
            raise StorageError("rename", path, "No space left on device")
        rename(path, target)

    with monkeypatch.context() as fault:
        fault.setattr(scene.files, "rename", refused)
        assert scene.written().value is None
    assert "third.tmp" in scene.files.list("")
    assert scene.written().value is None
    scene.files.settle()
    assert scene.files.list("") == sorted(NAMES)


def test_a_failed_sync_of_the_new_names_is_a_storage_error() -> None:
    scene = Writer()
    done = scene.writer.write()
    scene.files.pending.pop(0)()
    scene.files.fail_sync()
    scene.files.settle()
    assert isinstance(done.value, StorageError)


def test_a_defect_in_a_write_does_not_block_the_next_write() -> None:
    scene = Writer()
    scene.defect = ValueError("a defect")
    with pytest.raises(ValueError, match="a defect"):
        scene.written()
    scene.defect = None
    assert scene.written().value is None
    assert scene.kept == [b"old"] * 2
