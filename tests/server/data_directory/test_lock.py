"""The data directory. The error for a directory in use names the process that holds it. Damaged
checkpoints count as empty, and damaged properties need a recovery."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from oncelog_server.data_directory.lock import DataDirectory, DirectoryInUse
from oncelog_server.data_directory.ownership import NeedsRecovery
from oncelog_server.storage.layout import (
    BOOT,
    CLOSED_LOGS_CHECKPOINT,
    LOCK,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    METADATA_FILE,
    METADATA_NAME,
    RECOVERY_POINT_CHECKPOINT,
)
from tests.harness.descriptors import descriptors_in
from tests.server.storage.memory_files import MemoryFiles


def test_the_error_for_a_directory_in_use_names_the_process_that_holds_it(tmp_path: Path) -> None:
    first, second = DataDirectory(str(tmp_path)), DataDirectory(str(tmp_path))
    first.lock()
    assert descriptors_in(tmp_path) == 1
    with pytest.raises(DirectoryInUse) as refused:
        second.lock()
    holder = f" (pid {os.getpid()}) holds {tmp_path / LOCK}"
    assert holder in str(refused.value)
    assert descriptors_in(tmp_path) == 1
    first.release()
    second.lock()
    second.release()


def test_a_refused_first_start_changes_no_file(tmp_path: Path) -> None:
    made = tmp_path / "new"
    directory = DataDirectory(str(made))
    directory.unmake()
    directory.lock()
    (made / META_PROPERTIES).touch()
    (made / f"{METADATA_NAME}-copy").touch()
    (made / "t-0").mkdir()
    (made / "t-0" / "00000000000000000000.log").touch()
    directory.unmake()
    assert not made.exists()
    directory.release()

    directory = DataDirectory(str(tmp_path))
    directory.lock()
    directory.unmake()
    assert tmp_path.is_dir()
    directory.release()


def test_a_directory_with_metadata_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / METADATA_FILE).touch()
    directory = DataDirectory(str(tmp_path))
    directory.lock()
    directory.unmake()
    assert (tmp_path / METADATA_FILE).exists()
    directory.release()


@pytest.mark.parametrize("kind", ["a file", "a broken link", "a loop", "below a file"])
def test_a_path_that_cannot_be_a_directory_is_named_with_the_reason(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "data"
    if kind == "a file":
        path.touch()
        reason = f"{path} is a file, not a directory"
    elif kind == "a broken link":
        path.symlink_to(tmp_path / "nowhere")
        reason = f"{path} is a symbolic link: its target does not exist"
    elif kind == "a loop":
        path.symlink_to(path)
        reason = f"{path} is a symbolic link: a loop of symbolic links"
    else:
        path.touch()
        reason = f"{path} is a file, not a directory"
        path /= "below"
    with pytest.raises(OSError, match=re.escape(f"data directory {path} cannot be")) as refused:
        DataDirectory(str(path)).lock()
    assert reason in str(refused.value)


def test_a_link_to_a_directory_counts_as_a_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "real")
    directory = DataDirectory(str(tmp_path / "data"))
    directory.lock()
    assert (tmp_path / "real" / LOCK).exists()
    directory.release()


def test_a_damaged_checkpoint_counts_as_empty(tmp_path: Path) -> None:
    directory = DataDirectory(str(tmp_path))
    for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, CLOSED_LOGS_CHECKPOINT):
        (tmp_path / name).write_bytes(b"damaged")
    assert directory.recovery_points() == directory.log_start_offsets() == {}
    assert directory.closed_logs() == {}


def test_damaged_meta_properties_need_a_recovery(tmp_path: Path) -> None:
    directory = DataDirectory(str(tmp_path))
    assert directory.meta_properties() is None
    (tmp_path / META_PROPERTIES).write_bytes(b"damaged")
    with pytest.raises(NeedsRecovery, match=META_PROPERTIES):
        directory.meta_properties()


def test_the_page_cache_is_trusted_only_within_the_boot_that_wrote_it(
    tmp_path: Path,
) -> None:
    directory, files = DataDirectory(str(tmp_path)), MemoryFiles()
    assert not directory.was_kept_by("")
    directory.keep_by("", files)
    assert BOOT not in files.nodes
    directory.keep_by("a boot", files)
    (tmp_path / BOOT).write_bytes(bytes(files.nodes[BOOT].data))
    assert directory.was_kept_by("a boot")
    assert not directory.was_kept_by("another")
    assert not directory.was_kept_by("")
    (tmp_path / BOOT).unlink()
    (tmp_path / BOOT).mkdir()
    assert not directory.was_kept_by("a boot")
