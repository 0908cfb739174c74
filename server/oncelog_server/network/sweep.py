"""Closes connections that are idle too long, or too slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from typing import Final, Protocol

# Maximum time between two sweeps. With a short limit of idle time it is a fourth of that limit, so
# that connections are closed soon after the limit, but never below LEAST_SWEEP_MS.
SWEEP_MS: Final = 5_000
LEAST_SWEEP_MS: Final = 100
_SWEEPS_WHILE_IDLE: Final = 4
# The limits keep one turn of the loop at half a millisecond: a close takes some 50 microseconds, a
# check of one connection takes 1. Clients that connect together are late together (scenario H7).
CLOSED_IN_A_TURN: Final = 10
SEEN_IN_A_TURN: Final = 200


class Swept(Protocol):
    """A connection as the sweep sees it."""

    # True if bytes were read since `last_active_ms` was set.
    heard: bool
    last_active_ms: int

    @property
    def held_bytes(self) -> int:
        """Return the bytes of requests that are not served yet."""
        ...

    def takes_responses(self) -> bool:
        """Return True if the client has taken bytes of a response since the last call."""
        ...

    def delay(self, now_ms: int) -> str | None:
        """Return the reason if the client is too slow, else None."""
        ...

    def close(self, reason: str) -> None:
        """End the connection now. Do nothing if it has ended."""
        ...

    def fail(self, reason: str) -> None:
        """End the connection now, because of its client."""
        ...


class Sweep:
    """Looks at all connections, a few in each turn of the loop, at least every SWEEP_MS.

    `connections` are the open ones. A connection without a read for `max_idle_ms` is idle; a
    negative number means no limit. If incomplete requests take more memory than `max_held_bytes`,
    the connection with the largest incomplete request is closed; a number below 1 means no limit.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        monotonic_ms: Callable[[], int],
        connections: Collection[Swept],
        *,
        max_idle_ms: int,
        max_held_bytes: int,
    ) -> None:
        self._loop = loop
        self._monotonic_ms = monotonic_ms
        self._connections = connections
        self._max_idle_ms = max_idle_ms
        self._max_held_bytes = max_held_bytes
        self._interval_ms = SWEEP_MS
        if max_idle_ms >= 0:
            soon_ms = max(max_idle_ms // _SWEEPS_WHILE_IDLE, LEAST_SWEEP_MS)
            self._interval_ms = min(SWEEP_MS, soon_ms)
        self._next: asyncio.Handle | None = None

    def begin(self) -> None:
        """Look at the connections from now on, for the first time after an interval."""
        self._next = self._loop.call_later(
            self._interval_ms / 1000, lambda: self._continue(self._sweep())
        )

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()

    def _continue(self, sweep: Iterator[None]) -> None:
        try:
            next(sweep)
        except StopIteration:
            self.begin()
        else:
            self._next = self._loop.call_soon(self._continue, sweep)

    def _sweep(self) -> Iterator[None]:
        """Look at each connection once. Yield where the turn of the loop ends."""
        now_ms = self._monotonic_ms()
        held = seen = closed = 0
        for connection in list(self._connections):
            held += connection.held_bytes
            closed += self._close_if_late(connection, now_ms)
            seen += 1
            if seen == SEEN_IN_A_TURN or closed == CLOSED_IN_A_TURN:
                seen = closed = 0
                yield
        if 0 < self._max_held_bytes < held and self._connections:
            greedy = max(self._connections, key=lambda connection: connection.held_bytes)
            greedy.close(
                f"unfinished requests hold {held} bytes; the limit is {self._max_held_bytes}"
            )

    def _close_if_late(self, connection: Swept, now_ms: int) -> bool:
        """Close the connection if it is too slow or idle. Return True if it is."""
        late = connection.delay(now_ms)
        if late is not None:
            connection.fail(late)
            return True
        if connection.takes_responses() or connection.heard:
            connection.heard = False
            connection.last_active_ms = now_ms
        elif 0 <= self._max_idle_ms < now_ms - connection.last_active_ms:
            connection.close("idle")
            return True
        return False
