"""Only the owner of a data directory may read its files, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from oncelog_server.cluster.store import Put
from oncelog_server.metadata.database import Database
from oncelog_server.metadata.text_copy import TextCopy
from oncelog_server.operating_system.file_modes import make_private
from oncelog_server.salvage.backup import back_up
from oncelog_server.storage.layout import META_PROPERTIES, METADATA_COPY, METADATA_FILE


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """Return the files and folders, also `folder` itself, that other users may use."""
    return [
        str(path)
        for path in (folder, *folder.rglob("*"))
        if stat.S_IMODE(path.stat().st_mode) & 0o077
    ]


def test_a_file_is_created_for_its_owner_and_an_existing_one_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "new"
    make_private(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("content")
    path.chmod(0o644)
    make_private(path)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("content", 0o600)


def test_a_mode_that_cannot_be_changed_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "of-another-user"
    path.touch()

    def refused(path: object, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refused)
    with structlog.testing.capture_logs() as logs:
        make_private(path)
    assert [entry["file"] for entry in logs] == [str(path)]


def test_the_store_its_log_and_its_copy_are_for_their_owner(tmp_path: Path) -> None:
    """The write-ahead log and its index have the mode of the store."""
    folder = tmp_path / "data"
    folder.mkdir(0o700)
    paths = [folder / METADATA_FILE, folder / METADATA_COPY]
    for path in paths:  # as an older version has left them
        database = Database(paths[0], copy=paths[1])
        database.close()
        path.chmod(0o644)
    database = Database(paths[0], copy=paths[1], reserve=folder / "reserve")
    database.txn([], [Put("scram/SCRAM-SHA-256/alice", b"{}")])
    assert database.settle()
    database.txn([], [Put("scram/SCRAM-SHA-256/bob", b"{}")])
    assert {path.name for path in folder.iterdir()} >= {f"{METADATA_FILE}-wal", "reserve"}
    assert open_to_others(folder) == []
    database.close()
    copy = TextCopy(paths[1])
    copy.refresh(1, list)
    copy.close()
    assert open_to_others(folder) == []


def test_a_backup_is_for_its_owner(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    Database(tmp_path / "data" / METADATA_FILE).close()
    (tmp_path / "data" / META_PROPERTIES).touch()
    back_up(tmp_path / "data", tmp_path / "backup")
    assert open_to_others(tmp_path / "backup") == []
