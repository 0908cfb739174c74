"""The database of the metadata store: a text copy that cannot be written, and a file that another
process has locked."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from oncelog_server.metadata.database import Database
from oncelog_server.storage.layout import TEMPORARY_SUFFIX


def test_a_text_copy_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.with_name(
        copy.name + TEMPORARY_SUFFIX
    ).mkdir()  # a directory of that name makes the write fail
    database = Database(tmp_path / "metadata.sqlite", copy=copy)
    assert isinstance(database.failure, OSError)
    database.close()


def test_a_text_copy_that_is_written_or_not_kept_is_no_failure(tmp_path: Path) -> None:
    for name, copy in (("kept", tmp_path / "copy"), ("not kept", None)):
        database = Database(tmp_path / name, copy=copy)
        assert database.failure is None
        database.close()


def test_a_new_file_that_another_process_has_locked_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode=WAL")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OSError, match="is locked by another process") as caught:
            Database(path)
    assert str(path) in str(caught.value)
