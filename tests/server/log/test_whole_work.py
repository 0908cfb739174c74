"""Work in steps may also be done at once."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from oncelog_server.log.results import FileRange
from oncelog_server.log.whole_work import at_once
from tests.server.storage.memory_files import MemoryFiles


def steps(files: MemoryFiles, seen: list[str]) -> Generator[FileRange | None, None, str]:
    for name in ("first", "second"):
        seen.append(name)
        yield FileRange(files.open(name, create=True), 0, 1)
    yield None
    return "done"


def test_all_steps_are_done_without_a_prefetch() -> None:
    files, seen = MemoryFiles(), list[str]()
    assert at_once(steps(files, seen)) == "done"
    assert seen == ["first", "second"]
    assert not files.prefetched


def test_an_error_of_a_step_is_raised() -> None:
    def failing() -> Generator[None, None, None]:
        yield
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        at_once(failing())
