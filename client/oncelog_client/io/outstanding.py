"""The requests of one connection that have no response yet, with one timer for their deadlines."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from oncelog_client.errors import AuthenticationError, DisconnectedError, KafkaError

from .clock import monotonic_ms


class Pending(NamedTuple):
    """A request without a response. `deadline_ms` is a monotonic time."""

    response: asyncio.Future[Any]
    deadline_ms: float
    api_name: str


class Held(NamedTuple):
    """A request that is sent when the connection has authenticated again. `pending` is None for a
    request without a response."""

    request: object
    version: int
    pending: Pending | None


class Outstanding:
    """The requests in flight, in the order of their responses, and behind them the held requests.
    `on_timeout` gets the first request with an expired deadline."""

    def __init__(self, on_timeout: Callable[[Pending], None]) -> None:
        self._on_timeout = on_timeout
        self._in_flight: deque[Pending] = deque()
        self._held: deque[Held] = deque()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = math.inf

    def __bool__(self) -> bool:
        return bool(self._in_flight or self._held)

    def new(self, api_name: str, deadline_ms: float) -> Pending:
        """Return a request that will be in flight or held, and watch its deadline."""
        pending = Pending(self._loop.create_future(), deadline_ms, api_name)
        if deadline_ms < self._timer_at_ms:
            self._arm(deadline_ms)
        return pending

    def sent(self, pending: Pending) -> None:
        """Add a request in flight."""
        self._in_flight.append(pending)

    def hold(self, held: Held) -> None:
        """Add a held request."""
        self._held.append(held)

    def release(self) -> deque[Held]:
        """Return the held requests in order. The caller sends them now."""
        held, self._held = self._held, deque()
        return held

    def answered(self, message: object) -> None:
        """Complete the oldest request in flight."""
        pending = self._in_flight.popleft()
        if not pending.response.done():
            pending.response.set_result(message)

    def fail(self, error: KafkaError) -> None:
        """Fail all requests, because their connection failed with `error`."""
        if self._timer is not None:
            self._timer.cancel()
        for pending in self._in_flight:
            _set_error(pending, _error(error, sent=True))
        for held in self._held:
            if held.pending is not None:
                _set_error(held.pending, _error(error, sent=False))
        self._in_flight.clear()
        self._held.clear()

    def _arm(self, at_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = at_ms
        delay_ms = max(at_ms - monotonic_ms(), 0)
        self._timer = self._loop.call_later(delay_ms / 1000, self._check_deadlines)

    def _check_deadlines(self) -> None:
        now_ms = monotonic_ms()
        held = [entry.pending for entry in self._held if entry.pending is not None]
        waiting = [*self._in_flight, *held]
        for pending in waiting:
            if pending.deadline_ms <= now_ms:
                self._on_timeout(pending)
                return
        self._timer, self._timer_at_ms = None, math.inf
        if waiting:
            self._arm(min(pending.deadline_ms for pending in waiting))


def _error(error: KafkaError, *, sent: bool) -> KafkaError:
    """Return a copy of a connection's error for one request. A request that was sent before an
    authentication failed has lost its response, as with a broken connection."""
    if isinstance(error, DisconnectedError) or (sent and isinstance(error, AuthenticationError)):
        copy = DisconnectedError(error.message, sent=sent)
        copy.failures = error.failures if isinstance(error, DisconnectedError) else ()
        return copy
    if isinstance(error, AuthenticationError):
        return AuthenticationError(error.message, error.code, error.failures)
    return type(error)(error.message, error.code)


def _set_error(pending: Pending, error: KafkaError) -> None:
    if not pending.response.done():
        pending.response.set_exception(error)
        # Mark the exception as retrieved: the caller may have been cancelled.
        pending.response.exception()
