"""Waits for a condition, with a deadline. Tests use this instead of sleeping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

DEADLINE_S = 60.0


def wait_until(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Return once `condition()` is true. Fail the test after `deadline_s`."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        time.sleep(0.02)


async def turns_until(condition: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Give the event loop turns until `condition()` is true. Raises TimeoutError after
    `deadline_s`."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - waits for turns of the loop
            await asyncio.sleep(0)
