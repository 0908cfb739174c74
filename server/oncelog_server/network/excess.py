"""Closes connections above max.connections, the least recently used ones first (KIP-402).

There are such connections after a new one of the protected listener, which is admitted above the
limit, and after a change of the limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from typing import Final, Protocol

from oncelog_server.network.sweep import CLOSED_IN_A_TURN

REASON: Final = "too many connections, and this connection was the least recently used"


class Counted(Protocol):
    """A connection that counts for max.connections if `is_counted` is True."""

    is_counted: bool
    # True if bytes were read since `last_active_ms` was set.
    heard: bool
    last_active_ms: int

    @property
    def listener(self) -> str: ...

    @property
    def is_open(self) -> bool: ...

    def close(self, reason: str) -> None:
        """End the connection now."""
        ...


class Excess:
    """The connections above the limit: `count` returns their number, with those that are closing.
    The connections of the listener `protected` are never closed.

    The time of the last use is known to the interval of the sweep. Of the connections that were
    used in this interval, the oldest is closed first.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        monotonic_ms: Callable[[], int],
        connections: Collection[Counted],
        count: Callable[[], int],
    ) -> None:
        self._loop = loop
        self._monotonic_ms = monotonic_ms
        self._connections = connections
        self._count = count
        self.protected: str | None = None
        self._is_closing = False
        # True if the number may have grown since it was counted.
        self._has_grown = False

    def check(self) -> None:
        """Close the connections above the limit, a few in each turn of the loop from the next."""
        self._has_grown = True
        if not self._is_closing and self._count() > 0:
            self._is_closing = True
            self._loop.call_soon(self._continue, self._closings())

    def _continue(self, closings: Iterator[None]) -> None:
        try:
            next(closings)
        except StopIteration:
            self._is_closing = False
        else:
            self._loop.call_soon(self._continue, closings)

    def _closings(self) -> Iterator[None]:
        """Close connections. Yield where the turn of the loop ends."""
        while self._has_grown:
            self._has_grown = False
            for number, connection in enumerate(self._least_recently_used()):
                if number and not number % CLOSED_IN_A_TURN:
                    yield
                    if self._count() <= 0:
                        break
                connection.close(REASON)

    def _least_recently_used(self) -> list[Counted]:
        """Return the connections to close, in their order."""
        counted = [found for found in self._connections if found.is_counted]
        closing = sum(not connection.is_open for connection in counted)
        now_ms = self._monotonic_ms()
        others = sorted(
            (found for found in counted if found.is_open and found.listener != self.protected),
            key=lambda connection: now_ms if connection.heard else connection.last_active_ms,
        )
        return others[: max(self._count() - closing, 0)]
