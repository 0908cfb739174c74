"""The directories of the other brokers of a machine, before a recovery reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_server.data_directory.lock import DataDirectory, DirectoryInUse
from oncelog_server.salvage.other_brokers import check_others, other_directories


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """The directory of the second broker. The third one has no files yet."""
    folder = tmp_path / "brokers" / "2"
    folder.mkdir(parents=True)
    (folder / "oncelog-cluster-revision").write_bytes(b"7")
    (tmp_path / "brokers" / "3").mkdir()
    return folder


def test_only_directories_with_files_and_a_number_count(tmp_path: Path, second: Path) -> None:
    (tmp_path / "brokers" / "old").mkdir()
    (tmp_path / "brokers" / "old" / "file").touch()
    (tmp_path / "brokers" / "4").touch()
    assert other_directories(tmp_path) == {2: second}
    check_others(tmp_path)


def test_a_directory_with_metadata_of_its_own_is_refused(tmp_path: Path, second: Path) -> None:
    """It was a broker of its own, and the machine's metadata does not have its topics."""
    (second / "oncelog-metadata.sqlite").touch()
    with pytest.raises(ValueError, match=f"{second} has metadata of its own"):
        check_others(tmp_path)


@pytest.mark.parametrize("name", ["photo.jpg", "oncelog-migration"])
def test_a_directory_of_another_program_or_of_an_import_is_refused(
    tmp_path: Path, second: Path, name: str
) -> None:
    (second / "oncelog-cluster-revision").unlink()
    (second / name).write_text("/elsewhere")
    with pytest.raises(ValueError, match="is no data directory of a broker"):
        check_others(tmp_path)


def test_a_running_broker_is_refused(tmp_path: Path, second: Path) -> None:
    lock = DataDirectory(str(second))
    lock.take()
    try:
        with pytest.raises(DirectoryInUse, match="stop it first"):
            check_others(tmp_path)
    finally:
        lock.release()
