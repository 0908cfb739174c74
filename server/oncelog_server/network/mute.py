"""The time in which one connection serves no requests, because its client has exceeded a quota."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from oncelog_server.network.mutes import Mutes


class Muted(Protocol):
    """The connection."""

    def hold_requests(self) -> None: ...

    def release_requests(self) -> None: ...

    def close(self, reason: str) -> None: ...


class Mute:
    """The mute of one connection, until its end. `mutes` calls it back when its time is over. Times
    are milliseconds of `monotonic_ms`."""

    __slots__ = ("_connection", "_monotonic_ms", "_mutes", "_number", "_until_ms")

    def __init__(self, connection: Muted, mutes: Mutes, monotonic_ms: Callable[[], int]) -> None:
        self._connection = connection
        self._mutes = mutes
        self._monotonic_ms = monotonic_ms
        # 0 if the connection is not muted.
        self._until_ms = 0
        self._number = -1

    def close_after(self, delay_ms: int, reason: str) -> None:
        """Close the connection after a time."""
        self._until_ms = self._monotonic_ms() + delay_ms
        self._number = self._mutes.add(self._until_ms, lambda: self._connection.close(reason))
        self._connection.hold_requests()

    def extend(self, throttle_ms: int) -> None:
        """Mute the connection for a time from now. An earlier end than the present one changes
        nothing."""
        until_ms = self._monotonic_ms() + throttle_ms
        if until_ms <= self._until_ms:
            return
        if not self._until_ms:
            self._number = self._mutes.add(until_ms, self._end)
            self._connection.hold_requests()
        self._until_ms = until_ms

    def discard(self) -> None:
        """Forget the connection, because it is closed."""
        if self._until_ms:
            self._until_ms = 0
            self._mutes.discard(self._number)

    def _end(self) -> None:
        if not self._until_ms:  # closed since `mutes` scheduled this call
            return
        if self._until_ms > self._monotonic_ms():  # muted again meanwhile, for longer
            self._number = self._mutes.add(self._until_ms, self._end)
            return
        self._until_ms = 0
        self._connection.release_requests()
