"""When small answers are written: at once while the loop has one to write in each of its turns, so
that nobody waits for it; together at the turn's end where there are more.

A client that hears from many connections, or many clients on one machine, are so woken once for all
of them: waking the reader is what costs most of a small write. And all of them wait equally long.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Held(Protocol):
    """Something with answers that wait for the end of the turn."""

    def flush(self) -> None: ...


class Turn:
    """One per loop."""

    __slots__ = ("_answers", "_held", "_is_alone", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._answers = 0
        # Whether one answer was all there was in the last turn that had any.
        self._is_alone = True
        self._held: list[Held] = []

    def may_write(self) -> bool:
        """Whether an answer may leave now; to be asked once for each."""
        self._answers += 1
        if self._answers > 1:
            return False
        self._loop.call_soon(self._end)
        return self._is_alone

    def hold(self, held: Held) -> None:
        """Have it flushed at the end of this turn."""
        self._held.append(held)

    def _end(self) -> None:
        self._is_alone = self._answers == 1
        self._answers = 0
        held, self._held = self._held, []
        # Last served, first told: epoll keeps who was ready in the turn before ahead of who came
        # late, and who is told last may come late again. Told first, he is in time.
        for one in reversed(held):
            try:
                one.flush()
            except Exception as error:
                # The others are served all the same.
                message = "an answer was not written"
                self._loop.call_exception_handler({"message": message, "exception": error})
