"""Repeat an attempt with backoff until it succeeds or its deadline expires."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from oncelog_client.connect_failures import ConnectFailure, described
from oncelog_client.core.backoff import Backoff
from oncelog_client.errors import RetriableError, TimedOutError

from .clock import monotonic_ms
from .randomness import fraction

R = TypeVar("R")


def never(_: RetriableError) -> bool:
    """Return False: every RetriableError is worth another attempt."""
    return False


async def retry(
    attempt: Callable[[], Awaitable[R]],
    timeout_ms: float,
    backoff: Backoff,
    *,
    failures: Callable[[], tuple[ConnectFailure, ...]],
    hopeless: Callable[[RetriableError], bool] = never,
) -> R:
    """Return the result of the first attempt that succeeds within `timeout_ms`.

    Raises the exception of an attempt if it is no RetriableError, or if `hopeless` returns True for
    the exception. Raises the last RetriableError if the next attempt would start after the
    deadline. Raises TimedOutError, with the result of `failures()`, if the deadline expires during
    an attempt.
    """
    deadline_ms = monotonic_ms() + timeout_ms
    failed = 0
    last: RetriableError | None = None
    while True:
        try:
            async with asyncio.timeout(max(deadline_ms - monotonic_ms(), 0) / 1000) as scope:
                return await attempt()
        except RetriableError as error:
            last = error
            failed += 1
            delay_ms = backoff.delay_ms(failed, fraction())
            if hopeless(error) or monotonic_ms() + delay_ms >= deadline_ms:
                raise
        except TimeoutError:
            if not scope.expired():
                raise
            raise _timed_out(timeout_ms, failures(), last) from last
        await asyncio.sleep(delay_ms / 1000)


def _timed_out(
    timeout_ms: float, failures: tuple[ConnectFailure, ...], last: RetriableError | None
) -> TimedOutError:
    """Return the error of an attempt that the deadline ended, with its likely reason."""
    failures = failures or (() if last is None else last.failures)
    reason = described(failures) if failures else str(last or "")
    error = TimedOutError(
        f"no success within {timeout_ms:g} ms" + (f": {reason}" if reason else "")
    )
    error.failures = failures
    return error
