"""The guarantees of a sync of the simulated disk, and their limits."""

from __future__ import annotations

from random import Random

from tests.simulation.disk import Loss, SimDisk
from tests.simulation.namespace import Inode


def written(disk: SimDisk, *pieces: bytes) -> Inode:
    disk.create("f")
    inode = disk.names.files["f"]
    for piece in pieces:
        disk.append(inode, "f", piece)
    return inode


def test_a_sync_covers_what_was_written_before_it_began() -> None:
    disk = SimDisk(Random(0))
    inode = written(disk, b"first")
    begun = disk.begin_sync(inode)
    disk.append(inode, "f", b"second")
    assert disk.end_sync(begun)
    assert (inode.durable, inode.unsynced) == (b"first", [(5, b"second")])


def test_syncs_may_end_in_any_order() -> None:
    disk = SimDisk(Random(0))
    inode = written(disk, b"first")
    early = disk.begin_sync(inode)
    disk.append(inode, "f", b"second")
    late = disk.begin_sync(inode)
    disk.append(inode, "f", b"third")
    assert disk.end_sync(late)
    assert disk.end_sync(early)
    assert (inode.durable, inode.unsynced) == (b"firstsecond", [(11, b"third")])


def test_data_of_a_failed_sync_is_not_written_later() -> None:
    disk = SimDisk(Random(0))
    inode = written(disk, b"first")
    begun = disk.begin_sync(inode)
    disk.append(inode, "f", b"second")
    disk.weather.sync_error = 1.0
    assert not disk.end_sync(begun)
    assert (inode.durable, inode.unsynced) == (b"", [(5, b"second")])


def test_a_failed_sync_leaves_nothing_to_another_sync_that_began_before_its_end() -> None:
    """The other sync succeeds, because the kernel reports the error once."""
    disk = SimDisk(Random(0))
    inode = written(disk, b"first")
    begun, other = disk.begin_sync(inode), disk.begin_sync(inode)
    disk.weather.sync_error = 1.0
    assert not disk.end_sync(begun)
    disk.weather.sync_error = 0.0
    assert disk.end_sync(other)
    assert (inode.durable, inode.synced) == (b"", 0)


def test_names_in_a_renamed_directory_never_come_back_in_a_new_directory_of_the_old_name() -> None:
    for seed in range(20):
        disk = SimDisk(Random(seed))
        disk.names.make_directory("a-0")
        disk.sync_directory("")
        disk.create("a-0/partition.metadata")
        disk.names.rename("a-0", "a-0.1-delete")
        disk.names.make_directory("a-0")
        disk.sync_directory("")
        disk.lose_power(Loss())
        assert disk.names.list("a-0") == []


def test_files_of_a_new_directory_never_appear_in_the_old_directory_of_the_same_name() -> None:
    """A sync of the new directory and then of the root makes the new file durable. Until the root
    is synced, a power loss may bring back the old directory, with only its own file."""
    left = set()
    for seed in range(40):
        disk = replaced_directory(seed)
        disk.sync_directory("a-0")
        disk.lose_power(Loss(ordered=bool(seed % 2)))
        left.add(frozenset(disk.names.files))
    old, moved, new = "a-0/old.log", "a-0.1-delete/old.log", "a-0/new.log"
    assert left == {frozenset(files) for files in ({old}, {moved}, {moved, new})}
    for seed in range(40):
        disk = replaced_directory(seed)
        disk.sync_directory("a-0")
        disk.sync_directory("")
        disk.lose_power(Loss(ordered=bool(seed % 2)))
        assert set(disk.names.files) == {moved, new}


def replaced_directory(seed: int) -> SimDisk:
    """Return a disk with a durable directory a-0 that was renamed, and a new one of its name."""
    disk = SimDisk(Random(seed))
    disk.names.make_directory("a-0")
    disk.create("a-0/old.log")
    disk.sync_directory("a-0")
    disk.sync_directory("")
    disk.names.rename("a-0", "a-0.1-delete")
    disk.names.make_directory("a-0")
    disk.create("a-0/new.log")
    return disk


def test_changes_of_a_removed_directory_are_forgotten() -> None:
    disk = replaced_directory(0)
    disk.names.make_directory("a-0/below")
    disk.create("a-0/below/file")
    disk.names.unlink("a-0")
    disk.sync_directory("")
    assert disk.names.journal == []
