"""Decides when small responses are written: at once while each turn of the loop has a single
response, and together at the end of the turn if there are several. A client with many connections
then wakes up once for all its responses. Clients that share a computer also wake up less often.
Most of the cost of a small write is to wake the client that reads it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from oncelog_server.network.spin import Spin


class Held(Protocol):
    """A holder of responses that are written at the end of the turn."""

    def flush(self) -> None: ...


class Turn:
    """The responses of the current turn. There is one `Turn` for each loop.

    After a turn with exactly one response, `spin` keeps the loop awake.
    """

    __slots__ = ("_answers", "_held", "_is_alone", "_loop", "_spin")

    def __init__(self, loop: asyncio.AbstractEventLoop, spin: Spin) -> None:
        self._loop = loop
        self._spin = spin
        self._answers = 0
        # True if the last turn with responses had exactly one.
        self._is_alone = True
        self._held: list[Held] = []

    def may_write(self) -> bool:
        """Return True if a response may be written now. Call it once for each response."""
        self._answers += 1
        if self._answers > 1:
            return False
        self._loop.call_soon(self._end)
        return self._is_alone

    def hold(self, held: Held) -> None:
        """Flush `held` at the end of this turn."""
        self._held.append(held)

    def _end(self) -> None:
        self._is_alone = self._answers == 1
        self._answers = 0
        held, self._held = self._held, []
        # Flush in reverse order. epoll puts the sockets that were ready at the previous poll first,
        # so a client that is both served last and flushed last would be last in every turn.
        for outbox in reversed(held):
            try:
                outbox.flush()
            except Exception as error:
                # The other holders must still be flushed.
                message = "a response was not written"
                self._loop.call_exception_handler({"message": message, "exception": error})
        if self._is_alone:
            self._spin.begin()
