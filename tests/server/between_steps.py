"""How much is done between two steps of long work: where it may be interrupted, as calls of
functions, which a loaded machine does not change."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class Calls:
    """`most` is the number of Python functions that were called between two steps; `steps` counts
    these."""

    def __init__(self) -> None:
        self.most = self.steps = 0
        self._now = 0

    def counted(self, steps: Generator[Any, None, T] | Iterator[Any]) -> Generator[Any, None, T]:
        """The same steps, and what they return."""
        while True:
            self._now = 0
            before = sys.getprofile()
            sys.setprofile(self._count)
            try:
                step = next(steps)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]  # typeshed: Any; it is T
            finally:
                sys.setprofile(before)
                self.most = max(self.most, self._now)
                self.steps += 1
            yield step

    def of(self, work: Callable[[], T]) -> T:
        """What `work` returns, which is one step."""

        def steps() -> Generator[None, None, T]:
            return work()
            yield

        try:
            next(self.counted(steps()))
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]  # typeshed: Any; it is T
        raise AssertionError("a step after the end")

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        self._now += event == "call"
