"""The amount of work between two steps of long work, as a number of function calls. A loaded
machine does not change this number."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class Calls:
    """`most` is the maximum number of Python functions called between two steps; `steps` counts the
    steps."""

    def __init__(self) -> None:
        self.most = self.steps = 0
        self._now = 0

    def counted(self, steps: Generator[Any, None, T] | Iterator[Any]) -> Generator[Any, None, T]:
        """Yield each step, and count the calls before it. Return the result of `steps`."""
        while True:
            self._now = 0
            before = sys.getprofile()
            sys.setprofile(self._count)
            try:
                step = next(steps)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]  # typeshed has Any
            finally:
                sys.setprofile(before)
                self.most = max(self.most, self._now)
                self.steps += 1
            yield step

    def of(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, counted as a single step."""

        def steps() -> Generator[None, None, T]:
            return work()
            yield

        try:
            next(self.counted(steps()))
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]  # typeshed has Any
        raise AssertionError("the work has a step before its end")

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        self._now += event == "call"
