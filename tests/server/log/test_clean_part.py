"""The compacted part of a log never has a record that was appended after the compaction."""

from __future__ import annotations

import pytest

from oncelog_server.log.clean_part import CleanPart
from oncelog_server.storage.files import StorageError
from tests.server.storage.memory_files import MemoryFiles


def part() -> CleanPart:
    files = MemoryFiles()
    files.make_directory("a-0")
    return CleanPart(files, "a-0")


def test_the_offset_of_a_checkpoint_above_the_end_of_the_log_is_ignored() -> None:
    clean = part()
    clean.restore(11, log_end_offset=10)
    assert clean.end_offset is None
    clean.restore(10, log_end_offset=10)
    assert clean.end_offset == 10


def test_a_cut_lowers_the_offset_and_no_cut_raises_it() -> None:
    clean = part()
    clean.lower(5)
    assert clean.end_offset is None
    clean.extend(10)
    clean.lower(12)
    assert clean.end_offset == 10
    clean.begin_cut(7)
    assert clean.end_offset == 7


def test_a_log_that_leaves_is_not_extended_by_a_pass_that_ends_later() -> None:
    clean = part()
    clean.extend(10)
    clean.leave()
    clean.extend(20)
    assert clean.end_offset is None


def test_a_pass_is_ended_once() -> None:
    clean, ended = part(), []
    clean.begin_pass(lambda: ended.append(True))
    clean.end_pass()
    clean.end_pass()
    clean.begin_pass(lambda: ended.append(False))
    clean.pass_ended()
    clean.end_pass()
    assert ended == [True]


def test_a_cut_removes_the_files_of_an_unfinished_swap_or_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clean = part()
    clean.extend(10)
    swap = f"a-0/{0:020}.log.swap"
    clean._files.open(swap, create=True)
    with monkeypatch.context() as patch:

        def refused(source: str, target: str) -> None:
            raise StorageError("rename", source, "No space left on device")

        patch.setattr(clean._files, "rename", refused)
        with pytest.raises(StorageError):
            clean.begin_cut(5)
    assert clean.end_offset == 10
    clean.begin_cut(5)
    assert not clean._files.exists(swap)
