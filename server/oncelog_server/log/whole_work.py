"""Work in steps that is done at once. Its reads wait for the disk."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from oncelog_server.log.results import FileRange

T = TypeVar("T")


def at_once(steps: Generator[FileRange | None, None, T]) -> T:
    """Run the work to its end and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]  # typeshed has Any instead of T
