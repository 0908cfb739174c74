"""The file of leader epochs: when it is written, and what follows a refused write."""

from __future__ import annotations

import pytest

from oncelog_server.log.epoch_file import EpochFile
from oncelog_server.log.leader_epochs import LeaderEpochs
from oncelog_server.log.refusals import Refusals
from oncelog_server.storage.files import StorageError
from tests.server.storage.memory_files import NO_SPACE, MemoryFiles

PATH = "t-0/leader-epoch-checkpoint"


class Disk:
    """The file of epochs 3 (from offset 0) and 5 (from offset 10), on a disk that may be full."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.files.make_directory("t-0")
        self.refusals = Refusals()
        self.file = EpochFile(
            self.files, "t-0", LeaderEpochs([(3, 0), (5, 10)]), self.refusals, unsynced=False
        )

    @property
    def written(self) -> list[tuple[int, int]]:
        """The epochs in the file, [] without a file."""
        node = self.files.nodes.get(PATH)
        data = b"" if node is None else bytes(node.data)
        return [(epoch, start) for epoch, start in LeaderEpochs.decode(data)] if data else []


@pytest.fixture
def disk() -> Disk:
    return Disk()


def test_the_first_record_of_an_epoch_writes_the_file(disk: Disk) -> None:
    disk.file.note(5, 12)
    assert disk.written == []
    disk.file.note(6, 12)
    assert disk.written == [(3, 0), (5, 10), (6, 12)]
    assert disk.file.written_epoch == 6


def test_an_epoch_that_only_memory_has_is_written_with_its_first_record(disk: Disk) -> None:
    disk.file.epochs.assign(6, 12)
    disk.file.note(6, 14)
    assert disk.written == [(3, 0), (5, 10), (6, 12)]


def test_a_new_start_or_end_of_the_log_is_written_if_an_epoch_changes(disk: Disk) -> None:
    disk.file.end_at(11)
    disk.file.start_at(0)
    assert disk.written == []
    disk.file.end_at(10)
    assert disk.written == [(3, 0)]
    disk.file.start_at(4)
    assert disk.written == [(3, 4)]


def test_an_epoch_without_records_is_forgotten_and_may_begin_again(disk: Disk) -> None:
    disk.file.forget_empty(10)
    assert (disk.file.written_epoch, disk.written) == (3, [])
    disk.file.note(5, 10)
    assert disk.written == [(3, 0), (5, 10)]


def test_a_refused_write_is_retried_with_the_epochs_at_the_time_of_the_retry(disk: Disk) -> None:
    step = disk.files.step

    def refuse(operation: str, path: str) -> None:
        raise StorageError(operation, path, NO_SPACE)

    disk.files.step = refuse  # type: ignore[method-assign]  # a fault
    disk.file.note(6, 12)
    disk.file.epochs.assign(7, 15)
    assert disk.refusals.current is not None
    disk.files.step = step  # type: ignore[method-assign]  # the end of the fault
    disk.refusals.write_owed()
    assert disk.written == [(3, 0), (5, 10), (6, 12), (7, 15)]


def test_a_stop_syncs_the_file_once_after_it_was_written(disk: Disk) -> None:
    assert disk.file.take_unsynced() == []
    disk.file.note(6, 12)
    assert [file.path for file in disk.file.take_unsynced()] == [PATH]
    assert disk.file.take_unsynced() == []
