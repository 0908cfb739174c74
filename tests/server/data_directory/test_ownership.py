"""The owner of a data directory, as its files show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_server.data_directory.ownership import NeedsRecovery, Owner, check_ownership, owner_of


def test_only_the_directories_of_other_brokers_are_left(tmp_path: Path) -> None:
    """The first broker of the machine has lost its metadata, and has no partition."""
    second = tmp_path / "brokers" / "2"
    second.mkdir(parents=True)
    assert owner_of(tmp_path) is Owner.FOREIGN
    (second / "oncelog-cluster-revision").write_bytes(b"9")
    assert owner_of(tmp_path) is Owner.LOST
    with pytest.raises(NeedsRecovery, match="storage recover"):
        check_ownership(tmp_path)


@pytest.mark.parametrize("name", ["oncelog-cluster-revision.tmp", "oncelog-migration.tmp"])
def test_a_directory_with_a_first_file_that_is_unfinished_is_empty(
    tmp_path: Path, name: str
) -> None:
    """The process was killed before it renamed its first file."""
    (tmp_path / name).touch()
    assert owner_of(tmp_path) is Owner.EMPTY
    (tmp_path / "photo.jpg").touch()
    assert owner_of(tmp_path) is Owner.FOREIGN
